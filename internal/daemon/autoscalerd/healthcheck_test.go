package autoscalerd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/config"
)

// Mistakes that only URL probes and workflows detect are errors at loading, with a line.
func TestCheckHealth(t *testing.T) {
	const pool = `resource_groups:
  - local: {name: blue, min: 1, max: 3, machine: {cpus: 1, mem: 1024}}
scaling_limits: {min_capacity: 1, max_capacity: 3, max_weight_to_add: 2, max_weight_to_remove: 1}
health:
  detection:
    detection_modes:
      - {type: AGENT_HEARTBEAT}
`
	for name, tc := range map[string]struct{ text, want string }{
		"good":        {"  recovery: {actions: [{name: WORKFLOW, params: {kind: nats, subject: heal.it}}]}\n", ""},
		"placeholder": {"      - {type: NODE_STATUS_POLL_URL, options: {poll_url: 'http://{privat_ip}/'}}\n", ":8: health.detection.detection_modes[1].options.poll_url: "},
		"too slow": {"      - {type: NODE_STATUS_POLL_URL, options: {poll_url: 'http://{private_ip}/', poll_url_retry_limit: 9}}\n",
			":8: health.detection.detection_modes[1].options.poll_url_retry_limit: is 9: "},
		"template": {"  recovery:\n    actions:\n      - {name: WORKFLOW, params: {kind: nats, subject: heal.it, input: {a: '{{ node.color }}'}}}\n",
			":10: health.recovery.actions[0].params.input.a: "},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "p.yaml")
			if err := os.WriteFile(file, []byte(pool+tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			p, err := config.ReadPool(file, "prod", "default")
			if err != nil {
				t.Fatal(err)
			}
			err = CheckHealth(p)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("CheckHealth = %v, want %q in it", err, tc.want)
			}
		})
	}
}
