package message

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
)

func counts(apps int) api.InstanceCounts {
	c := api.InstanceCounts{Pool: "default", Complete: true, At: time.Unix(9, 0).UTC(), Apps: map[string]api.AppCount{}}
	for i := range apps {
		c.Apps[fmt.Sprintf("app-%d", i)] = api.AppCount{Expected: i}
	}
	return c
}

func TestSplitAndGather(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := counts(rapid.IntRange(0, 40).Draw(t, "apps"))
		maxResource := rapid.IntRange(0, 10).Draw(t, "most")
		parts := SplitCounts(want, maxResource)
		want.Parts = 1
		var g Gather
		for i, part := range rapid.Permutation(parts).Draw(t, "order") {
			if len(part.Apps) > max(maxResource, 1) || part.Parts != len(parts) {
				t.Fatalf("part %d of %d has %d apps", part.Part, part.Parts, len(part.Apps))
			}
			if i == 0 && len(parts) > 1 {
				if _, ok := g.Add(part); ok {
					t.Fatal("whole too early")
				}
			}
			got, ok := g.Add(part)
			if i == 0 && len(parts) > 1 {
				if ok {
					t.Fatal("a part counts twice")
				}
				continue
			}
			if ok != (i == len(parts)-1) || ok && !cmp.Equal(got, want) {
				t.Fatalf("part %d: %v\n%s", i, ok, cmp.Diff(want, got))
			}
		}
	})
}

func TestGatherRestartsWithAnotherPublication(t *testing.T) {
	old, anew := SplitCounts(counts(4), 2), counts(6)
	anew.At = anew.At.Add(time.Second)
	anew.Complete = false
	var g Gather
	if _, ok := g.Add(old[0]); ok {
		t.Error("half is whole")
	}
	parts := SplitCounts(anew, 3)
	if _, ok := g.Add(parts[1]); ok {
		t.Error("old and new make a whole")
	}
	if got, ok := g.Add(parts[0]); !ok || len(got.Apps) != 6 || got.Complete {
		t.Errorf("gathered %d apps, %v, complete %v", len(got.Apps), ok, got.Complete)
	}
	if got, ok := g.Add(counts(1)); !ok || len(got.Apps) != 1 {
		t.Errorf("a telling without parts is %v, %v", got, ok)
	}
	if _, ok := g.Add(api.InstanceCounts{Part: 2, Parts: 2}); ok {
		t.Error("took part 2 of 0 to 1")
	}
}

func TestLargestPartFits(t *testing.T) {
	c := api.InstanceCounts{Pool: strings.Repeat("p", 63), Why: strings.Repeat("w", 1000), Apps: map[string]api.AppCount{}}
	for i := range MaxCountApps {
		c.Apps[fmt.Sprintf("%s%05d", strings.Repeat("a", 58), i)] = api.AppCount{Expected: MaxInstances, Running: MaxInstances, Missing: MaxInstances,
			Flapping: MaxInstances, Crashed: MaxInstances, Extra: MaxInstances, CPUs: math.Pi * 1e20, Mem: math.E * 1e20, Disk: math.Sqrt2 * 1e20}
	}
	data, err := json.Marshal(c)
	if err != nil || len(data) > 1<<20 {
		t.Errorf("a part has %d bytes, %v", len(data), err)
	}
	if n := len(SplitCounts(counts(3*maxCountParts), 1)); n != maxCountParts {
		t.Errorf("%d parts", n)
	}
}

func TestDecodeCountsRejectsBadParts(t *testing.T) {
	for _, in := range []string{`{"part":1}`, `{"part":-1,"parts":2}`, `{"part":2,"parts":2}`, `{"parts":100000}`, `{"parts":-1}`} {
		if _, err := DecodeCounts([]byte(in)); err == nil {
			t.Errorf("DecodeCounts(%s) succeeded", in)
		}
	}
}
