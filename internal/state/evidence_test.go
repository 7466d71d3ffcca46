package state_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/internal/state"
)

// Load returns the newest objects of one node in order, and no object of other nodes and pools.
func TestEvidence(t *testing.T) {
	js := js(t, "batch")
	web, err := state.NewEvidence(js, "here", "web")
	if err != nil {
		t.Fatal(err)
	}
	other, err := state.NewEvidence(js, "here", "batch")
	if err != nil {
		t.Fatal(err)
	}
	load := func(node string) (got []string) {
		t.Helper()
		err := web.Load(t.Context(), node, func(name string, data []byte) error {
			got = append(got, name+" "+string(data))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := load("i-1"); got != nil {
		t.Errorf("before the first: %q", got)
	}
	for i := range 6 {
		for _, e := range []*state.Evidence{web, other} {
			if _, err := e.Save(t.Context(), "i-1", fmt.Appendf(nil, "%d", i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	name, err := web.Save(t.Context(), "host.of/web", []byte("x"))
	if err != nil || name != "host.of/web/7" {
		t.Errorf("Save = %q, %v", name, err)
	}
	if diff := cmp.Diff([]string{"i-1/3 2", "i-1/4 3", "i-1/5 4", "i-1/6 5"}, load("i-1")); diff != "" {
		t.Errorf("of i-1 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"host.of/web/7 x"}, load("host.of/web")); diff != "" {
		t.Errorf("of another (-want +got):\n%s", diff)
	}
	nodes, err := web.Nodes(t.Context())
	if diff := cmp.Diff([]string{"host_of_web", "i-1"}, nodes); err != nil || diff != "" {
		t.Errorf("Nodes: %v (-want +got):\n%s", err, diff)
	}
	for _, node := range []string{"", "a b", strings.Repeat("x", 300)} {
		if _, err := web.Save(t.Context(), node, nil); err == nil {
			t.Errorf("Save of node %.20q is no error", node)
		}
	}
	if _, err := web.Save(t.Context(), "i-1", make([]byte, 193<<10)); err == nil {
		t.Error("Save of 193 KiB is no error")
	}
}
