package config

import "time"

// Migration is Clusterman's node_migration. What has a meaning here becomes the rotation of the pool.
type Migration struct {
	Trigger  MigrationTrigger  `yaml:"trigger"`
	Strategy MigrationStrategy `yaml:"strategy"`
}

// MigrationTrigger is what begins a migration.
type MigrationTrigger struct {
	MaxUptime Age `yaml:"max_uptime"` // rotation.max_age
}

// MigrationStrategy is how a migration goes on.
type MigrationStrategy struct {
	BootstrapWait    Age `yaml:"bootstrap_wait"`    // rotation.health_gate.wait
	BootstrapTimeout Age `yaml:"bootstrap_timeout"` // rotation.health_gate.within
}

// Ignored returns why keys of Clusterman are ignored.
func (Migration) Ignored() map[string]string {
	return map[string]string{
		"disable_autoscaling": "is ignored: the pool keeps following its need", "ignore_pod_health": "is ignored: instances that are not ready fail the health gate",
		"health_check_interval": "is ignored: each tick checks the new machines", "orphan_capacity_tollerance": "is ignored: a machine leaves only when the others meet the target",
		"max_uptime_worker_skips": noService, "expected_duration": "is ignored: a rotation has no end by time",
	}
}

// Ignored returns why keys of Clusterman are ignored.
func (MigrationTrigger) Ignored() map[string]string {
	return map[string]string{"event": `is ignored: order a rotation with "weir pool rotate --where"`}
}

// Ignored returns why keys of Clusterman are ignored.
func (MigrationStrategy) Ignored() map[string]string {
	return map[string]string{
		"rate":       "is ignored: the disruption budget bounds the machines at a time, and rotation.rate those within a time",
		"prescaling": "is ignored: a replacement always starts first", "precedence": "is ignored: the order is that of a scale-in",
		"allowed_failed_drains": "is ignored: a drain that fails is tried again",
	}
}

// rotation returns the rotation with the values of a migration, where its own are missing.
func (m *Migration) rotation(r Rotation) Rotation {
	if m == nil {
		return r
	}
	r.MaxAge = firstOf(r.MaxAge, m.Trigger.MaxUptime)
	r.Gate.Within = firstOf(r.Gate.Within, time.Duration(m.Strategy.BootstrapTimeout))
	if wait := time.Duration(m.Strategy.BootstrapWait); r.Gate.Wait == nil && wait > 0 {
		r.Gate.Wait = &wait
	}
	return r
}
