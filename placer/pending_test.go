package placer

import (
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/resource"
)

func TestWhyNotNamesWhatIsMissing(t *testing.T) {
	nodes := func(all ...resource.Vector) capacity {
		c := capacity{nodes: all}
		for _, n := range all {
			for k, x := range n {
				c.largest[k] = max(c.largest[k], x)
			}
		}
		return c
	}
	for _, tt := range []struct {
		name string
		all  capacity
		need resource.Vector
		want string
	}{
		{"no node", nodes(), resource.Vector{1}, "no node of the pool reports"},
		{"busy", nodes(resource.Vector{4, 100}), resource.Vector{4, 100}, "no node has so much room now"},
		{"cpus", nodes(resource.Vector{4, 100}), resource.Vector{8, 100}, "no node can hold it: it needs 8 cpus, the largest has 4 cpus"},
		{"two kinds", nodes(resource.Vector{4, 100}), resource.Vector{8, 200}, "no node can hold it: it needs 8 cpus, the largest has 4 cpus, and 200 MB of memory, the largest has 100 MB of memory"},
		{"none has all", nodes(resource.Vector{4, 100}, resource.Vector{1, 500}), resource.Vector{4, 500}, "no node can hold it: no node has all of cpus=4 mem=500"},
	} {
		if got := tt.all.whyNot(tt.need); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestRejectedStartHasItsReason(t *testing.T) {
	w := newWorld(t)
	w.app(1, "v1")
	w.node("a", false)
	w.start("v1", 0)
	w.expect("placed", "start web/0 on a")
	w.c.started(w.now, w.did[0].instance, Rejected, "no space left on device")
	p := w.c.pending()
	if p.Total != 0 || len(p.Rejected) != 1 || !strings.HasSuffix(p.Rejected[0].Why, "no space left on device") {
		t.Errorf("pending: %+v, want one rejected copy", p)
	}
}
