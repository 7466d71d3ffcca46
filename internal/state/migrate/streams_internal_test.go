package migrate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOtherClustersKeepTheirSubjects(t *testing.T) {
	for name, test := range map[string]struct {
		subjects, others, want []string
	}{
		"the only cluster":  {[]string{"weir.*.decision.*", "weir.*.decision.*.part"}, nil, nil},
		"another cluster":   {[]string{"weir.*.decision.*", "weir.*.decision.*.part"}, []string{"b"}, []string{"weir.b.decision.*", "weir.b.decision.*.part"}},
		"after another one": {[]string{"weir.a.decision.*", "weir.b.decision.*"}, []string{"b"}, []string{"weir.b.decision.*"}},
		"after all":         {[]string{"weir-old.decision"}, nil, []string{"weir-old.decision"}},
	} {
		if diff := cmp.Diff(test.want, remaining(test.subjects, "a", test.others)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
