package bus

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAddress(t *testing.T) {
	want := address{URL: "nats://127.0.0.1:4222", Token: "t", PID: 7}
	path := filepath.Join(t.TempDir(), "address.json")
	if err := want.write(path); err != nil {
		t.Fatal(err)
	}
	got, err := readAddress(path)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("read: %v (-want +got):\n%s", err, diff)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, %v, want 0600", info, err)
	}
}

func TestDecodeAddressRefuses(t *testing.T) {
	tests := map[string]string{
		"empty":          ``,
		"not json":       `nats://127.0.0.1:4222`,
		"unknown key":    `{"url": "nats://127.0.0.1:1", "token": "t", "pid": 1, "x": 1}`,
		"another host":   `{"url": "nats://192.0.2.1:4222", "token": "t", "pid": 1}`,
		"a name":         `{"url": "nats://localhost:4222", "token": "t", "pid": 1}`,
		"another scheme": `{"url": "http://127.0.0.1:4222", "token": "t", "pid": 1}`,
		"user":           `{"url": "nats://u@127.0.0.1:4222", "token": "t", "pid": 1}`,
		"no token":       `{"url": "nats://127.0.0.1:4222", "pid": 1}`,
		"no pid":         `{"url": "nats://127.0.0.1:4222", "token": "t"}`,
		"too long":       strings.Repeat(" ", maxAddress+1),
	}
	for name, data := range tests {
		t.Run(name, func(t *testing.T) {
			if a, err := decodeAddress([]byte(data)); err == nil {
				t.Errorf("decodeAddress = %+v, want an error", a)
			}
		})
	}
}

func TestRedact(t *testing.T) {
	tests := map[string]string{
		"nats://a:4222":                      "nats://a:4222",
		"nats://user:hush@a:4222":            "nats://a:4222",
		"nats://hush@a:1, tls://u:hush@b:2":  "nats://a:1,tls://b:2",
		"user:hush@a:4222":                   "a:4222",
		"localhost":                          "localhost",
		"nats://u:hu%zzsh@a:4222":            "a:4222",
		"nats://u:hush@a:4222/?token=hush#x": "nats://a:4222",
	}
	for in, want := range tests {
		if got := redact(in); got != want {
			t.Errorf("redact(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzDecodeAddress(f *testing.F) {
	f.Add([]byte(`{"url": "nats://127.0.0.1:4222", "token": "t", "pid": 1}`))
	f.Add([]byte(`{"url": "nats://[::1]:4222"`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := decodeAddress(data)
		if err == nil && (a.PID <= 0 || a.Token == "" || !strings.HasPrefix(a.URL, "nats://")) {
			t.Errorf("decodeAddress(%q) = %+v", data, a)
		}
	})
}
