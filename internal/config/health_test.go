package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// completePolicy is a complete policy on one line; it is line 4 after goodPool.
const completePolicy = "health: {detection: {detection_modes: [{type: AGENT_HEARTBEAT}, {type: NODE_STATUS_POLLING}]}}\n"

func TestHealthBlock(t *testing.T) {
	p := mustReadPool(t, goodPool+completePolicy)
	if !p.HealthEnabled() || len(p.Health.Detection.Modes) != 2 {
		t.Errorf("policy: %+v", p.Health)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"unknown key": {"health:\n  detection:\n    detection_modes: [{type: AGENT_HEARTBEAT, options: {missed: 3}}]\n", "FILE:6: health.detection.detection_modes[0].options.missed: no such key; did you mean miss? (allowed: " + strings.Join(slices.Sorted(slices.Values(keysOf(reflect.TypeFor[judge.Options]()))), ", ") + ")"},
		"quorum":      {"health: {detection: {recovery_conditional: AT_LEAST 3, detection_modes: [{type: AGENT_HEARTBEAT}, {type: NODE_STATUS_POLLING}]}}\n", "FILE:4: health.detection.quorum: is 3: want 1 to 2, the number of modes that vote"},
		"provider":    {"health: {detection: {detection_modes: [{type: LB_STATUS_POLLING}]}}\n", "FILE:4: health.detection.detection_modes[0].type: is LB_STATUS_POLLING, which the provider of this pool does not support: want AGENT_HEARTBEAT, NODE_STATUS_POLLING, NODE_STATUS_POLL_URL, LIFECYCLE_EVENTS"},
		"fencing":     {"health: {exclusive: true, detection: {detection_modes: [{type: AGENT_HEARTBEAT}]}}\n", "FILE:4: health.recovery.fencing: has no COMPUTE, but the pool is exclusive: add it"},
		"networks":    {"health:\n  detection:\n    detection_modes:\n      - {type: NODE_STATUS_POLL_URL, options: {poll_url: 'http://8.8.8.8/'}}\n", "FILE:7: health.detection.detection_modes[0].options.poll_url: leads to 8.8.8.8, outside the allowed networks 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10, fc00::/7, 127.0.0.0/8, ::1/128: name its network in health.allowed_networks"},
		"reason":      {"health:\n  detection: {detection_modes: [{type: AGENT_HEARTBEAT}]}\n  reasons:\n    DiskPressure: {wait: 10m, actoin: RECREATE}\n", "FILE:7: health.reasons.DiskPressure.actoin: no such key; did you mean action? (allowed: action, wait)"},
		"reason's":    {"health:\n  detection: {detection_modes: [{type: AGENT_HEARTBEAT}]}\n  reasons:\n    DiskPressure: {wait: 10m, action: REBOOT}\n", "FILE:7: health.reasons.DiskPressure.action: is REBOOT, which is not among recovery.actions: add it there"},
		"network":     {"health: {allowed_networks: [ten], detection: {detection_modes: [{type: AGENT_HEARTBEAT}]}}\n", `FILE:4: health.allowed_networks[0]: is "ten": want a network such as "10.0.0.0/8"`},
		"duration":    {"health: {detection: {interval: soon, detection_modes: [{type: AGENT_HEARTBEAT}]}}\n", `FILE:4: health.detection.interval: is "soon": want a number of seconds, or a duration such as "30s" or "10m"`},
		"limit":       {"health: {safety: {max_unhealthy: 300%}, detection: {detection_modes: [{type: AGENT_HEARTBEAT}]}}\n", `FILE:4: health.safety.max_unhealthy: is "300%": want a whole number of nodes, or a percentage such as "20%"`},
		"isolation":   {"health: {isolation_security_group: sg-1, detection: {detection_modes: [{type: AGENT_HEARTBEAT}]}}\n", "FILE:4: health.isolation_security_group: is not used by groups of local machines: remove it"},
		"nothing":     {"health: {}\n", "FILE:4: health.detection.detection_modes: is missing: want at least one of NODE_STATUS_POLLING, HYPERVISOR_STATUS_POLLING, NODE_STATUS_POLL_URL, LB_STATUS_POLLING, LIFECYCLE_EVENTS, AGENT_HEARTBEAT"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readPool(t, goodPool+tc.text)
			expectError(t, err, tc.want)
		})
	}
}

// TestHealthPolicy reads a policy from a pool file and from a file of its own.
func TestHealthPolicy(t *testing.T) {
	const bare = "detection: {detection_modes: [{type: AGENT_HEARTBEAT}]}\n"
	for name, tc := range map[string]struct{ text, want string }{
		"pool file":  {goodPool + completePolicy, ""},
		"alone":      {bare, ""},
		"of a cloud": {"detection: {detection_modes: [{type: LB_STATUS_POLLING}]}\nisolation_security_group: sg-1\nrecovery: {fencing: [NETWORK]}\n", ""},
		"mistake":    {bare + "exclusive: true\n", "FILE: recovery.fencing: has no COMPUTE, but the pool is exclusive: add it"},
		"empty":      {"health:\n", "FILE:1: health: is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			p, _, err := HealthPolicy("FILE", []byte(tc.text))
			expectError(t, err, tc.want)
			if err == nil && p.Health.WithDefaults().Mode != api.ModeObserve {
				t.Errorf("mode: %q", p.Health.WithDefaults().Mode)
			}
		})
	}
}
