package influx

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/metrics/store"
)

func TestOpenReadsTheTokenFile(t *testing.T) {
	s := &settings{URL: "http://127.0.0.1:8086", Bucket: "b", TokenFile: filepath.Join(t.TempDir(), "token")}
	if _, err := StoreKind().Open(store.Site{Settings: s}); err == nil || !strings.Contains(err.Error(), "metrics.influx.token_file") {
		t.Errorf("Open without the file = %v, want an error that names the key", err)
	}
	if err := os.WriteFile(s.TokenFile, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := StoreKind().Open(store.Site{Settings: s}); err != nil {
		t.Errorf("Open = %v", err)
	}
}
