package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/resource"
)

// instanceMetadata serves what IMDSv2 has of an instance of an Auto Scaling group. pool is CLUSTER/POOL.
func instanceMetadata(t *testing.T, id, group, pool string) (url string) {
	t.Helper()
	values := map[string]string{
		"instance-id": id, "instance-type": "m7i.large", "placement/availability-zone": "eu-central-1a", "placement/region": "eu-central-1",
		"tags/instance": "aws:autoscaling:groupName\nweir:pool", "tags/instance/aws:autoscaling:groupName": group, "tags/instance/weir:pool": pool,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value, ok := values[strings.TrimPrefix(r.URL.Path, "/latest/meta-data/")]
		switch {
		case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token":
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
			fmt.Fprint(w, "token")
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "token":
			w.WriteHeader(http.StatusUnauthorized)
		case !ok:
			w.WriteHeader(http.StatusNotFound)
		default:
			fmt.Fprint(w, value)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestAgentNeedsNoFlagOnEC2 starts "weir agent" with a weir.yaml alone: it publishes the facts of the metadata, and what
// it measured. A second one is refused, and names the first.
func TestAgentNeedsNoFlagOnEC2(t *testing.T) {
	t.Parallel()
	url := bustest.Serve(t, server.Options{}).ClientURL()
	facts := bustest.SubscribeSync(t, bustest.Connect(t, url), message.FactsSubject("prod", message.Node{Pool: "*", Name: "*"}))
	configs := t.TempDir()
	text := fmt.Sprintf("nats: {servers: [%q]}\nagent: {metadata_endpoint: %q, reserve: {mem: 1}}\nadmin: {agent: off}\n", url, instanceMetadata(t, "i-0123456789abcdef0", "web-asg", "prod/web"))
	if err := os.WriteFile(filepath.Join(configs, "weir.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	systemd, cmd := startNotified(t, "agent", "--config-dir", configs, "--data", t.TempDir())
	systemd.until("READY=1")
	m, err := facts.NextMsg(patience)
	if err != nil {
		t.Fatal(err)
	}
	f, err := wire.DecodeFacts(m.Data)
	if err != nil || f.ID != "i-0123456789abcdef0" || f.Group != "web-asg" || f.Pool != "web" {
		t.Errorf("facts: %+v, %v, want those of the metadata", f, err)
	}
	for _, k := range []resource.Kind{resource.CPUs, resource.Mem, resource.Disk} {
		if f.Resources[k] <= 0 {
			t.Errorf("%v is %v, want what the machine has", k, f.Resources[k])
		}
	}
	ended := make(chan result, 1)
	go func() { ended <- weir("agent", "--config-dir", configs, "--data", t.TempDir()) }()
	select {
	case r := <-ended:
		if r.code == command.ExitOK || !strings.Contains(r.stderr, "another agent of this node runs: process ") {
			t.Errorf("a second agent: %+v, want that it is refused", r)
		}
	case <-time.After(patience):
		t.Error("a second agent runs")
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}
