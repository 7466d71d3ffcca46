package simulate_test

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/pools/rotate"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// A rotation by age works at virtual time: each machine of two days is replaced about once in twelve hours, copies are never without a
// machine, and no more than the rate leaves in an hour.
func TestRotationByAge(t *testing.T) {
	t.Parallel()
	if testprograms.WithoutRace(t, "simulate") {
		return
	}
	p := policy(1)
	when, err := rotate.Parse("age>12h")
	if err != nil {
		t.Fatal(err)
	}
	p.Rotation.Rules = []rotate.Rule{{Name: "rotation of age>12h", Work: api.WorkRotate, When: when, Where: "age>12h"}}
	p.Rotation.Rate, p.Rotation.Gate = rotate.Rate{Machines: 2, Within: time.Hour}, rotate.Gate{Wait: 10 * time.Minute, Within: 20 * time.Minute}
	removed, joined := []time.Time(nil), 0.0
	run(t, simulate.Scenario{
		Start: noon, Ticks: 48 * 60, Pool: p, Groups: []simulate.Group{machine("a", 8)},
		Work: copies(t, simulate.App{Name: "web", Copy: resource.Vector{2.5, 100}, StartsIn: 5 * time.Second}, 49*time.Hour, 8),
		Sink: func(r api.TickRecord) error {
			for _, a := range r.Actions {
				if a.Op == api.OpRemove {
					removed = append(removed, r.At)
				}
			}
			if joined = r.Snapshot.Joined; joined < 8 {
				t.Errorf("%v: %v machines joined", r.At, joined)
			}
			return explained(r)
		},
	})
	if n := len(removed); n < 2*8 || n > 4*8 {
		t.Errorf("%d machines were replaced", n)
	}
	for i := 2; i < len(removed); i++ {
		if removed[i].Sub(removed[i-2]) < time.Hour {
			t.Errorf("three machines left within %v", removed[i].Sub(removed[i-2]))
		}
	}
}
