package config

import (
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry/shadow"
)

// Rules returns the numbers of the rules. Missing keys keep their defaults.
func (h Harmonizer) Rules() apps.Config {
	in := h.Intervals
	c := apps.Config{
		DropletLost:          value(in.DropletLost, 0),
		HeartbeatPeriod:      value(in.Heartbeat, 0),
		NudgeKeepAlive:       value(in.KeepAlive, 0),
		ResetGrace:           (*time.Duration)(in.ResetGrace),
		FlappingTimeout:      value(in.FlappingTime, 0),
		MinRestartDelay:      value(in.MinDelay, 0),
		MaxRestartDelay:      value(in.MaxDelay, 0),
		DelayTimeNoise:       (*time.Duration)(in.Noise),
		GiveupCrashNumber:    in.GiveUp,
		RequestQueue:         value(in.QueueEvery, 0),
		ExpectedStateLost:    value(in.ExpectedLost, 0),
		DropletGCGracePeriod: (*time.Duration)(in.AppGrace),
		FlappingDeath:        in.FlappingDeath,
		DisruptionFloor:      h.DisruptionFloor,
		Starter:              apps.Starter(h.Starter),
		StopsWholeApps:       h.Dialect == DialectCloudController || h.Dialect == dialectBoth,
	}
	if in.QueueBatch != nil {
		c.QueueBatchSize = *in.QueueBatch
	}
	if h.DisruptionLimit != nil {
		c.DisruptionLimit = *h.DisruptionLimit
	}
	if h.FilterPartition != nil && *h.FilterPartition {
		c.Partition = h.Partition
	}
	if h.Partial {
		c.Partial = func(string) bool { return true }
	}
	return c
}

// Loop returns the configuration of a cluster's harmonizer.
func (h Harmonizer) Loop(cluster string, pools []string) harmonizer.Config {
	return harmonizer.Config{
		Cluster: cluster, Pools: pools, Apps: h.Rules(), Shadow: h.Shadows(),
	}
}

// Shadow returns the configuration of the comparison with another harmonizer.
func (h Harmonizer) Shadow() shadow.Config {
	return shadow.Config{Window: value(h.Intervals.ShadowDelay, 0), Every: value(h.Intervals.CheckShadow, 0)}
}

// ExpectedUpdate returns the time between two readings of a polled source.
func (h Harmonizer) ExpectedUpdate() time.Duration {
	return value(h.Intervals.ExpectedUpdate, time.Minute)
}

// ExpectedLost returns how long such a reading counts as fresh.
func (h Harmonizer) ExpectedLost() time.Duration {
	return value(h.Intervals.ExpectedLost, 3*time.Minute)
}

// RequestTimeout bounds a request on the bus.
func (h Harmonizer) RequestTimeout() time.Duration {
	return value(h.Intervals.RequestTimeout, 5*time.Second)
}

// PageTimeout bounds one response of the bulk API.
func (b BulkAPI) PageTimeout() time.Duration { return value(b.Timeout, 30*time.Second) }

// HasStarter reports whether the file has the key starter.
func (h Harmonizer) HasStarter() bool { return h.document.given("starter") }
