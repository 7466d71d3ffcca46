package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
)

// TestDaemonsOnThreeServers runs all daemons of a pool, each with the credentials of its role, on three servers with TLS
// and the generated permissions. A pool and an application run, a viewer reads them, and no daemon ends.
func TestDaemonsOnThreeServers(t *testing.T) {
	t.Parallel()
	w := newBusWorld(t)
	for pid, runs := range w.instances() {
		if !runs {
			t.Errorf("the instance with process %s has ended", pid)
		}
	}
	var status api.HarmonizerStatus
	if err := json.Unmarshal([]byte(w.command(w.viewer, "app", "status", "--output", "json")), &status); err != nil {
		t.Fatal(err)
	}
	if status.Counters["nudges_confirmed"] == 0 || len(status.Unanswered) != 0 {
		t.Errorf("%d nudges are confirmed, unanswered: %+v", status.Counters["nudges_confirmed"], status.Unanswered)
	}
	for _, d := range w.daemons {
		if d.ended() {
			t.Errorf("%s has ended", d.name)
		}
		for _, line := range d.log() {
			if rejected(line) {
				t.Errorf("%s: %s", d.name, line)
			}
		}
	}
}

// TestUnansweredRequestsAreNamed kills both placers of a pool. Status, lists and doctor name it.
func TestUnansweredRequestsAreNamed(t *testing.T) {
	t.Parallel()
	w := newBusWorld(t)
	for _, d := range w.daemons {
		if strings.HasPrefix(d.name, "placer") {
			if err := d.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			<-d.done
		}
	}
	w.command(w.operator(), "app", "set", "shop", "--instances", "7")
	configs := w.folder(roles.User{Role: roles.Viewer, Cluster: busCluster}, w.urls(), "aws: {region: eu-central-1}\nautoscale_signal: {name: default}\n")
	file := filepath.Join(configs, busCluster, busPool+".yaml") // doctor needs it
	if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(busPoolFile), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line, want, remedy string
	}{
		{"app status", "no placer of pool web answers requests to start instances of shop", `start "weir placer web"`},
		{"status", "no placer of pool web answers requests to start instances of shop", `start "weir placer web"`},
		{"pool list", "no placer of pool web answers requests to start instances of shop", `start "weir placer web"`},
		{"doctor", `no scheduler answers the harmonizer's requests for starts of "shop"`, `start "weir placer web"`},
	} {
		eventually(t, "weir "+c.line+" names the placer", func() error {
			r := w.run(configs, strings.Fields(c.line)...)
			if out := r.stdout + r.stderr; !strings.Contains(out, c.want) || !strings.Contains(out, c.remedy) {
				return errors.New(out)
			}
			return nil
		})
	}
	for pid, runs := range w.instances() {
		if !runs {
			t.Errorf("the instance with process %s has ended", pid)
		}
	}
}
