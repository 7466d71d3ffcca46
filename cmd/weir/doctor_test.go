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
