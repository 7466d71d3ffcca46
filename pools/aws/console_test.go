package aws

import (
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/pools/provider"
)

func TestConsole(t *testing.T) {
	long := strings.Repeat("x", provider.MaxConsole) + "the end"
	for _, tc := range []struct {
		name, text string
		xen        bool
		want       string
	}{
		{"nothing is printed", "", false, ""},
		{"of a Nitro instance", "kernel panic\n", false, "kernel panic\n"},
		{"of another instance", "kernel panic\n", true, "kernel panic\n"},
		{"the end of a long output", long, false, long[len("the end"):]},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, id := releasedGroup(t, false)
			r.server.Print(id, tc.text, tc.xen)
			got, err := r.provider.Console(t.Context(), id)
			if err != nil || string(got) != tc.want {
				t.Errorf("Console = %d bytes, %v, want %d bytes", len(got), err, len(tc.want))
			}
		})
	}
	r, _ := releasedGroup(t, false)
	if _, err := r.provider.Console(t.Context(), "i-00000000000000000"); err == nil {
		t.Error("the console of an unknown instance is no error")
	}
}
