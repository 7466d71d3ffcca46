package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// TestNewerSchemaUnderRunningDaemons stores a newer schema while a cluster runs, as the first upgraded host does, and starts
// each daemon of the old version again. Status and each daemon name both versions. Nothing that runs is stopped for it, and
// no machine is ordered or ended. With the old schema all goes on.
func TestNewerSchemaUnderRunningDaemons(t *testing.T) {
	t.Parallel()
	w := newBusWorld(t)
	before, calls := w.instances(), len(w.cloud.Calls())
	b := w.open(roles.User{Role: roles.Admin, Cluster: busCluster}, w.urls()...)
	store := func(version int) {
		t.Helper()
		for _, bucket := range []string{names.PoolBucket(busCluster, busPool), names.PlacerBucket(busCluster, busPool), names.HarmonizerBucket(busCluster)} {
			if _, err := kvbucket.New(b.JetStream(), bucket).Put(t.Context(), "schema", fmt.Appendf(nil, `{"version":%d}`, version)); err != nil {
				t.Fatal(err)
			}
		}
	}
	const want = "version 2, this weir supports 1; install the version of weir that wrote it, or restore a backup"
	store(2)
	eventually(t, "both versions in status", func() error {
		if r := w.run(w.viewer, "status"); !strings.Contains(r.stdout+r.stderr, want) {
			return errors.New(r.stdout + r.stderr)
		}
		return nil
	})
	w.nothingHappened("newer schema", before, calls)

	again := w.stopDaemons("host", "harmonizer", "placer")
	for _, start := range again {
		start()
	}
	for _, d := range w.daemons {
		if strings.HasPrefix(d.name, "agent ") {
			continue
		}
		eventually(t, "the end of "+d.name, func() error {
			if !d.ended() {
				return errors.New("it runs")
			}
			return nil
		})
		if log := strings.Join(d.log(), "\n"); !strings.Contains(log, want) {
			t.Errorf("%s ends with\n%s\nwant %q", d.name, log, want)
		}
	}

	store(1)
	for _, start := range again {
		start()
	}
	eventually(t, "a pool that matches its application", w.settled)
	w.nothingHappened("old schema again", before, calls)
}
