//go:build plane

package e2e

import (
	"testing"
)

// A Deployment grows: its pods wait, the pool grows, and they run. It shrinks: pods are evicted within their budget, machines end, and their
// Node objects go.
func TestDeploymentGrowsAndShrinks(t *testing.T) {
	w := start(t, settings{})
	w.deploy(deployment("app", 2, "900m"), 1)
	w.untilRuns("app", 2)
	w.scale("app", 9)
	w.untilRuns("app", 9)
	grown := len(w.machines())
	w.scale("app", 3)
	w.until("the pool shrinks, and the Node objects go", func() bool { n := len(w.machines()); return n < grown && n <= 4 && len(w.objects()) == n })
	w.untilRuns("app", 3)
	if len(w.lost) > 0 {
		t.Errorf("pods ran when their machine ended: %v", w.lost)
	}
}
