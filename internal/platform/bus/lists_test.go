package bus_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
)

// Lists sends whole lists, in order, as long as allowed.
func TestLists(t *testing.T) {
	long := strings.Repeat("x", 20)
	for name, tc := range map[string]struct {
		items, want []string
	}{
		"none":     {nil, nil},
		"one":      {[]string{"a"}, []string{`["a"]`}},
		"split":    {[]string{"a", "b", "c", "d"}, []string{`["a","b"]`, `["c","d"]`}},
		"too long": {[]string{"a", long, "b"}, []string{`["a"]`, `["` + long + `"]`, `["b"]`}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			err := bus.Lists(tc.items, 10, func(list []byte) error { got = append(got, string(list)); return nil })
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
	broken := errors.New("broken")
	if err := bus.Lists([]string{"a"}, 10, func([]byte) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("Lists = %v, want %v", err, broken)
	}
	if err := bus.Lists([]any{func() {}}, 10, func([]byte) error { return nil }); err == nil {
		t.Error("what JSON cannot say is no error")
	}
}
