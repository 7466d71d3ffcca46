package config

import (
	"testing"
	"time"
)

// The shortest time limit is the default, which depends on the tick of both files.
func TestTimeLimitShorterThanTheDefault(t *testing.T) {
	const default4 = "is 4s: want at least 5s, the default at a tick of 10s; remove it, or choose a shorter autoscaling.tick"
	for _, c := range []struct{ name, service, pool, want string }{
		{"the default", "", "autoscaling: {tick: 10s}\n" + signals(", time_limit: 5s"), ""},
		{"shorter", "", "autoscaling: {tick: 10s}\n" + signals(", time_limit: 4s"), "POOL:6: autoscale_signals[0].time_limit: " + default4},
		{"of one signal", "", "autoscaling: {tick: 10s}\nautoscale_signal: {name: rps, version: v1, time_limit: 4s}\n", "POOL:5: autoscale_signal.time_limit: " + default4},
		{"of the default signal", "autoscale_signal: {time_limit: 4s}\n", "autoscaling: {tick: 10s}\n", "SERVICE:1: autoscale_signal.time_limit: " + default4},
		{"tick of the service file", "autoscaling: {tick: 8s}\n", signals(", time_limit: 4s"), ""},
		{"tick is the period", "", signals(", period: 12s, time_limit: 4s"), "POOL:5: autoscale_signals[0].time_limit: is 4s: want at least 6s, the default at a tick of 12s; remove it, or choose a shorter autoscaling.tick"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := Files{
				Cluster: "prod", Pool: "default",
				Service: File{Path: "SERVICE", Text: []byte(c.service)}, PoolIn: File{Path: "POOL", Text: []byte(goodPool + c.pool)},
			}.Decode()
			expectError(t, err, c.want)
		})
	}
}

// Bootstrap waits for a new version as long as the autoscaler does.
func TestTimeLimitInTheBootstrapPlan(t *testing.T) {
	plan := Bootstrap(load(t, "autoscale_signal: {time_limit: 2m}\n", goodPool+signals(", time_limit: 40s")))
	if own, fallbackSignal := plan.Signals[1].TimeLimit, plan.Signals[0].TimeLimit; own != 40*time.Second || fallbackSignal != 2*time.Minute {
		t.Errorf("time limits %v, %v, want 40s and 2m", own, fallbackSignal)
	}
}
