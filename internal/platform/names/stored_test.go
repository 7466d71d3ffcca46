package names_test

import (
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// Two clusters or pools with similar names share no bucket and no stream.
func TestStoredNamesDiffer(t *testing.T) {
	seen := map[string]string{}
	add := func(name, of string) {
		t.Helper()
		if other, ok := seen[name]; ok {
			t.Errorf("%s is the name of %s and of %s", name, other, of)
		}
		seen[name] = of
	}
	clusters := []string{"prod", "prod_apps", "apps_prod", "state_prod", "prod_web", "prod-web", "a"}
	for _, c := range clusters {
		add(names.HarmonizerBucket(c), "the harmonizer of "+c)
		add(names.AuthBucket(c), "the agents of "+c)
		add(names.NotifyBucket(c), "the targets of "+c)
		add(names.AppsBucket(c), "the applications of "+c)
		for _, p := range []string{"web", "web_a", "a_web", "prod"} {
			add(names.PoolBucket(c, p), "pool "+c+" "+p)
			add(names.PlacerBucket(c, p), "the placer of "+c+" "+p)
			add(names.LedgerStream(c, p), "the ledger of "+c+" "+p)
			add(names.SummaryStream(c, p), "the summaries of "+c+" "+p)
			add(names.EvidenceStream(c, p), "the evidence of "+c+" "+p)
		}
	}
}
