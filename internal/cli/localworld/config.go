package localworld

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
)

const (
	upBucket    = "weir-signals"
	upNamespace = "weir"
	upSignal    = "instance_count"
)

// upService is the service file of "weir up". Its parameters are the bucket's endpoint and name, and the file with the
// token of the dashboard.
const upService = `# Written by "weir up" at each start; edits are lost.
aws: {region: us-east-1, endpoint_url: "%s", path_style: true, signals_bucket: %s}
autoscale_signal:
  name: default
  period: 2s
  required_metrics:
    - {name: cpus_allocated, type: system_metrics, range: 1m}
    - {name: mem_allocated, type: system_metrics, range: 1m}
    - {name: disk_allocated, type: system_metrics, range: 1m}
web: {token_file: "%s"}
admin: {agent: "off", bootstrap: "off", metrics: "off", web: "off"}   # several "weir up" may run on a host
autoscaling: {default_signal_role: weir, setpoint: 0.8, target_capacity_margin: 0.1}
`

// upPool is the pool file of "weir up". Its parameter is the version of its signal.
const upPool = `# Written by "weir up" at each start; edits are lost. To use a pool file of your
# own, copy this one and start "weir up --pool-file FILE".
resource_groups:
  - local: {name: blue, min: 1, max: 10, machine: {cpus: 1, mem: 1024, disk: 10240}}
  - local: {name: green, min: 1, max: 10, machine: {cpus: 1, mem: 1024, disk: 10240}}
scaling_limits: {min_capacity: 2, max_capacity: 20, max_weight_to_add: 10, max_weight_to_remove: 5, max_tasks_to_kill: inf}
autoscaling: {tick: 2s}
autoscale_signals:
  - app: apps
    namespace: weir
    name: instance_count
    version: %s
    period: 2s
    required_metrics:
      - {name: cpus_expected, type: instance_counts, range: 1m, max_age: 20s}
      - {name: mem_expected, type: instance_counts, range: 1m, max_age: 20s}
      - {name: disk_expected, type: instance_counts, range: 1m, max_age: 20s}
draining: {draining_time_threshold_seconds: 120}
health:                       # mode act repairs unhealthy machines; "weir node status" lists them
  mode: observe
  detection:
    interval: 5
    node_update_timeout: 15
    node_startup_timeout: 60
    detection_modes:
      - {type: AGENT_HEARTBEAT, options: {expected_interval: 1, miss: 5}}
      - {type: NODE_STATUS_POLLING}
`

// upHarmonizer is the harmonizer's file of "weir up", with short intervals.
const upHarmonizer = `# Written by "weir up" at each start; edits are lost.
intervals: {heartbeat_period: 1s, droplet_lost: 5s, min_restart_delay: 5s, delay_time_noise: 1s}
`

// writeUpConfigs writes the files below the data folder.
func writeUpConfigs(data, cluster, pool, endpoint, sources string, poolFile []byte) error {
	dir := daemon.UpConfigs(data)
	service := fmt.Appendf(nil, upService, endpoint, upBucket, daemon.WebTokens(data))
	if err := daemon.WriteFile(filepath.Join(dir, "weir.yaml"), append(service, sources...)); err != nil {
		return err
	}
	if err := daemon.WriteFile(filepath.Join(dir, "harmonizer.yaml"), []byte(upHarmonizer)); err != nil {
		return err
	}
	return daemon.WriteFile(filepath.Join(dir, filepath.FromSlash(config.FileOf(cluster, pool))), poolFile)
}

// versionOfFile returns a version from the content of a signal's build, because the content of a version never
// changes.
func versionOfFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return "build-" + hex.EncodeToString(sum.Sum(nil))[:12], nil
}

// shippedSignalFile returns the path of the signal program in the binary's folder.
func shippedSignalFile() (string, error) {
	dir := os.Getenv("WEIR_SIGNALS_DIR")
	if dir == "" {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(filepath.Dir(self), "signals")
	}
	path := filepath.Join(dir, upSignal)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find the signal that weir up publishes: %w; build it with \"make build\", or set its folder in WEIR_SIGNALS_DIR", err)
	}
	return path, nil
}
