package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/cli/doctor"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
)

// A cluster with TLS and the generated configuration: one server's clock is five minutes ahead.
func TestDoctorFindsClockSkew(t *testing.T) {
	t.Parallel()
	servers := bustest.StartProcesses(t, false, natsconf.Cluster{Name: "local", Pools: []natsconf.Pool{{Name: "default"}}})
	if err := stepClock(servers.PID(t, 1), 5*time.Minute); err != nil {
		t.Fatal(err)
	}
	configs := muteConfig(t)
	seed, err := servers.Seed(t, roles.User{Role: roles.Viewer, Cluster: "local"}.Name()).Seed()
	if err == nil {
		err = os.WriteFile(filepath.Join(configs, "viewer.nk"), seed, 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(configs, "weir.yaml"), fmt.Appendf(nil, "nats:\n  servers: [%q, %q, %q]\n  nkey_file: viewer.nk\n  tls: {ca_file: %q}\n",
			servers.URL(0), servers.URL(1), servers.URL(2), servers.CAFile()), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	line := []string{"doctor", "--data", t.TempDir(), "--config-dir", configs}
	r := weir(line...)
	for _, want := range []string{
		"failed   clock: " + servers.URL(1) + ": its clock is ", "s ahead of that of this host", "synchronize the clocks of both hosts",
		"ok       clock: " + servers.URL(0) + ": its clock is that of this host", "ok       clock: " + servers.URL(2),
		"ok       nats server: " + servers.URL(1) + ": n2, NATS 2.", "ok       role: local.viewer (role viewer)",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("weir doctor lacks %q:\n%s%s", want, r.stdout, r.stderr)
		}
	}
	if r.code != 1 {
		t.Errorf("weir doctor ended with %d, want 1", r.code)
	}
	var facts []doctor.Finding
	if r := weir(append(line, "--output", "json")...); json.Unmarshal([]byte(r.stdout), &facts) != nil || r.code != 1 {
		t.Fatalf("weir doctor --output json ended with %d:\n%s%s", r.code, r.stdout, r.stderr)
	}
	if !slices.ContainsFunc(facts, func(f doctor.Finding) bool {
		return f.Check == "clock" && f.Result == doctor.Failed && strings.HasPrefix(f.Detail, servers.URL(1)) && f.Fix != ""
	}) {
		t.Errorf("the facts lack the clock: %+v", facts)
	}
	_, rest, _ := strings.Cut(r.stdout, servers.URL(1)+": its clock is ")
	text, _, _ := strings.Cut(rest, " ahead")
	// The answer took time, so the true difference may be longer by that.
	if skew, err := time.ParseDuration(text); err != nil || skew > 5*time.Minute || skew < 5*time.Minute-patience {
		t.Errorf("the clock is %v ahead (%v), want 5m", skew, err)
	}
}

// A pool that neither the configuration nor the cluster has is a mistake in its name: doctor lists the pools, and creates nothing.
func TestDoctorOfUnknownPool(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	b := openBus(t, data)
	storeTick(t, b, "web", decidedTick("web", time.Now().UTC()))
	line := []string{"doctor", "--data", data, "--config-dir", muteConfig(t), "--timeout", "5s", "--pool"} // has a file of pool "default"
	for _, flags := range [][]string{{"wbe"}, {"wbe", "--fix"}} {
		r := weir(append(line, flags...)...)
		text := strings.Join(strings.Fields(r.stdout), " ")
		want := `failed pool: neither the files nor the bus of cluster local have a pool "wbe"; its pools are default, web; did you mean web? type "weir doctor web", or write the file of a new pool: ` +
			filepath.Join(line[4], "local", "wbe.yaml")
		if r.code != 2 || !strings.Contains(text, want) || strings.Contains(text, "weir nats streams") || strings.Contains(text, "created") {
			t.Errorf("weir doctor --pool %q: %+v, want %q", flags, r, want)
		}
	}
	if r := weir(append(line, "web")...); r.code != 1 || strings.Contains(r.stdout, "pool: neither") {
		t.Errorf("weir doctor --pool web: %+v", r)
	}
	empty := t.TempDir()
	openBus(t, empty)
	if r := weir("doctor", "--data", empty, "--config-dir", line[4], "--timeout", "5s"); strings.Contains(r.stdout, "pool: neither") {
		t.Errorf("weir doctor of a pool with a file: %+v", r)
	}
}
