package pool

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirkeeper/weirkeeper/api"
)

// The machines of a group cost what their markets do. An Auto Scaling group with spot machines counts as spot for that part. The prices
// are those of weir.yaml without --prices.
func TestCostsOfAPlan(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"weir.yaml":  "prices: {table: prices.csv}\n",
		"prices.csv": "type,zone,spot,price\nm5.large,,false,0.2\nm5.large,a,true,0.1\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spot, demand := api.MarketOffer{InstanceType: "m5.large", Zone: "a", Spot: true, Weight: 2, Count: 3}, api.MarketOffer{InstanceType: "m5.large", Zone: "a", Weight: 2, Count: 1}
	r := api.TickRecord{
		At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Result: &api.CaseResult{Groups: map[string]int{"asg": 16, "base": 2, "empty": 0}},
		Snapshot: api.Snapshot{Groups: []api.GroupSnapshot{{ID: "asg", Kind: "asg", Fulfilled: 8}, {ID: "base", Kind: "asg", Fulfilled: 2}, {ID: "empty", Kind: "sfr"}}},
		State:    api.PoolState{Groups: map[string]api.GroupState{"asg": {Markets: []api.MarketOffer{spot, demand}}, "base": {Markets: []api.MarketOffer{demand}}}},
	}
	c, err := assumed{factors: []string{"spot*2"}}.costs(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.of(r)
	want := []api.GroupCost{
		{Group: "asg", Market: "on-demand m5.large in a and spot m5.large in a", Now: 0.5, Plan: 1, Assumed: 1.6},
		{Group: "base", Market: "on-demand m5.large in a", Now: 0.2, Plan: 0.2, Assumed: 0.2},
		{Group: "empty", Market: "spot"},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); err != nil || diff != "" {
		t.Errorf("%v\n-want +got:\n%s", err, diff)
	}
	if _, err := (assumed{factors: []string{"spot*2"}}).costs(t.TempDir()); err == nil {
		t.Error("--price without any prices is accepted")
	}
	if c, err := (assumed{}).costs(dir); err != nil || c.prices != nil {
		t.Errorf("without flags: %+v, %v, want no cost", c, err)
	}
}
