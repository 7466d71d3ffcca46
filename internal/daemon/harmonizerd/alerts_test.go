package harmonizerd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/promtest"
)

// beats has the heartbeats of four nodes.
type beats struct {
	mu     sync.Mutex
	copies int // in all; index i runs on node i%4
	nodes  int // the first ones send heartbeats
}

func (b *beats) set(copies, nodes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.copies, b.nodes = copies, nodes
}

// heartbeats returns the current heartbeats by subject.
func (b *beats) heartbeats(t *testing.T) map[string][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string][]byte{}
	for n := range b.nodes {
		h := api.Heartbeat{Node: fmt.Sprint("n", n), Beats: []api.Beat{}}
		for i := n; i < b.copies; i += 4 {
			h.Beats = append(h.Beats, api.Beat{App: "web", Version: "v1", Instance: fmt.Sprint("web-", i), Index: i, State: "RUNNING", Since: 1})
		}
		data, err := json.Marshal(h)
		if err != nil {
			t.Error(err)
		}
		out[message.HeartbeatSubject("test", message.Node{Pool: "p", Name: h.Node})] = data
	}
	return out
}

// A real Prometheus makes each alert about a running harmonizer fire and end.
func TestHarmonizerAlertsFireAndEnd(t *testing.T) {
	dir := t.TempDir()
	rows := filepath.Join(dir, "apps.yaml")
	path := filepath.Join(dir, "health_manager.yml")
	text := fmt.Sprintf("expected_state: {file: %s}\nlease: 3s\n"+
		"intervals: {heartbeat_period: 1, droplet_lost: 4, nudge_keep_alive: 1}\n", rows)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file, _, err := config.ReadHarmonizer(path)
	if err != nil {
		t.Fatal(err)
	}
	a, conn := announced(t, file)
	b := &beats{copies: 20, nodes: 4}
	var wg sync.WaitGroup
	end := make(chan struct{})
	defer wg.Wait()
	defer close(end)
	wg.Go(func() {
		tick := time.NewTicker(300 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			for subject, data := range b.heartbeats(t) {
				if err := conn.Publish(subject, data); err != nil {
					t.Error(err)
				}
			}
		}
	})
	watch := promtest.Start(t, "http://"+a.Host, filepath.Join("..", "..", "..", "deploy", "prometheus", "weir-alerts.yml"), 100*time.Millisecond)
	watch.Expect("without rows", "WeirHarmonizerCannotAct")
	if err := os.WriteFile(rows, []byte("apps:\n  web: {instances: 20, pool: default, command: ./serve, cpus: 0.1, mem: 16, version: v1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	watch.Expect("with rows and heartbeats")
	b.set(19, 4)
	watch.Expect("with a missing instance and no placer", "WeirInstancesMissing", "WeirNudgesUnanswered")
	b.set(20, 4)
	watch.Expect("with all instances")
	b.set(20, 1)
	watch.Expect("after the loss of three nodes", "WeirDisruptionLimitOn", "WeirInstancesMissing")
	b.set(20, 4)
	watch.Expect("after their return")
}
