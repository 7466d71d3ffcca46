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

func TestLanguageIsChecked(t *testing.T) {
	for language, want := range map[string]string{"": "", "flux": "", "influxql": "", "sql": `is "sql": want flux, or influxql`} {
		found := (&settings{URL: "http://127.0.0.1:8086", Bucket: "b", Language: language}).Check()
		if (len(found) > 0) != (want != "") || want != "" && !strings.Contains(found[0].What, want) {
			t.Errorf("%s: %v, want %q", language, found, want)
		}
	}
}
