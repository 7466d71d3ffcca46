package placerbus

import (
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
)

func FuzzDecodeApp(f *testing.F) {
	f.Add("web", []byte(`{"name":"web","pool":"p","instances":2,"version":"v1","command":"run","cpus":1}`))
	f.Add("web", []byte(`{"name":"db","pool":"p"}`))
	f.Add("web", []byte(`{"name":"web","pool":"p","command":"`+strings.Repeat("x", message.MaxRow)+`"}`))
	f.Fuzz(func(t *testing.T, key string, data []byte) {
		a, err := decodeApp(integrity.Key{Name: key, Value: data})
		if err == nil && (a.Name != key || len(data) > message.MaxRow || a.Footprint().Validate() != nil) {
			t.Errorf("decodeApp(%q, %q) = %+v", key, data, a)
		}
	})
}
