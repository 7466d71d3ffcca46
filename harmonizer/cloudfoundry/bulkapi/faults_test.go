package bulkapi

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/internal/platform/jsonfault"
)

// A fault in a row makes that row unreadable: its app keeps its last row. The other rows of the answer count. An answer with a
// fault outside of its rows adds nothing.
func TestFaultsOfRows(t *testing.T) {
	row := func(id string) string {
		return `"` + id + `":{"id":"` + id + `","instances":2,"state":"STARTED","memory":256,"package_state":"STAGED","updated_at":"2012-11-16 00:00:00 UTC",` +
			`"version":"v1","framework":"f","runtime":"r"}`
	}
	answer := page(row("a") + "," + row("b") + "," + row("c"))
	if lacks := jsonfault.Lacks[wireRow](`{"results":{},` + strings.TrimPrefix(row("b"), `"b":{`)); lacks != nil {
		t.Errorf("the row lacks %q", lacks)
	}
	rules := jsonfault.Rules{Optional: "id memory framework runtime", Except: []jsonfault.Except{
		{Field: "", Faults: []jsonfault.Fault{jsonfault.Missing}, Usable: true, Why: "the answer has no such row; the next pages may have it"},
		{Field: "version", Faults: []jsonfault.Fault{jsonfault.Type}, Values: "7 -1", Usable: true, Why: "versions may be whole numbers"},
		{Field: "updated_at", Faults: []jsonfault.Fault{jsonfault.Type}, Values: "7 1.5", Usable: true, Why: "times may be unix seconds"},
	}}
	good, err := collectedFrom(answer)
	if err != nil || len(good.rows) != 3 {
		t.Fatalf("%d rows, %v", len(good.rows), err)
	}
	n := 0
	for _, c := range jsonfault.Cases(answer) {
		if strings.HasPrefix(c.Path, "results.a") || strings.HasPrefix(c.Path, "results.c") || strings.HasPrefix(c.Path, "bulk_token") && (c.Path != "bulk_token" || c.Fault != jsonfault.Twice) {
			continue
		}
		n++
		h, err := collectedFrom(c.Text)
		if !strings.HasPrefix(c.Path, "results.b") || c.Fault == jsonfault.NotJSON {
			switch {
			case err != nil && len(h.rows)+len(h.unreadable) > 0:
				t.Errorf("%v: %v with %d rows", c, err, len(h.rows))
			case err == nil && c.Fault != jsonfault.Extra && c.Fault != jsonfault.OtherCase:
				t.Errorf("%v: no error", c)
			}
			continue
		}
		want, unreadable := good.rows, []string(nil)
		if !rules.Usable("results.b", c) && c.Fault != jsonfault.OtherCase {
			unreadable = []string{"b"}
		}
		var names []string
		for _, a := range h.rows {
			names = append(names, a.Name)
			if a.Name != "b" && !cmp.Equal(a, want[a.Name[0]-'a']) && c.Fault != jsonfault.OtherCase {
				t.Errorf("%v: row %+v, want %+v", c, a, want[a.Name[0]-'a'])
			}
		}
		has := slices.Contains(names, "b")
		if err != nil || !slices.Contains(names, "a") || !slices.Contains(names, "c") || has != (unreadable == nil && c.String() != "results.b: missing") {
			t.Errorf("%v: rows %q, %v", c, names, err)
		}
		if got := slices.Compact(slices.DeleteFunc(slices.Clone(h.unreadable), func(id string) bool { return id != "b" })); !slices.Equal(got, unreadable) || (h.problem == nil) != (h.unreadable == nil) {
			t.Errorf("%v: unreadable %q, want %q; problem %v", c, h.unreadable, unreadable, h.problem)
		}
	}
	t.Logf("%d faulty answers", n)
}
