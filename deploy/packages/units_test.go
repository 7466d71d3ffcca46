package packages

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const unitFolder = "../systemd"

// units returns the paths of the unit files.
func units(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(unitFolder, "*.service"))
	if err != nil || len(all) < 4 {
		t.Fatalf("units %v %v, want at least 4", all, err)
	}
	return all
}

// unit is a unit file: the values of each "Section.Key", in order.
type unit map[string][]string

func parse(text string) unit {
	u, section := unit{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[]")
		} else if key, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			u[section+"."+key] = append(u[section+"."+key], value)
		}
	}
	return u
}

// required are the keys of every daemon, with a value; empty: any value.
func required() map[string]string {
	return map[string]string{
		"Unit.Description": "", "Unit.Documentation": "", "Unit.StartLimitIntervalSec": "0", "Unit.Wants": "network-online.target",
		"Service.Type": "notify", "Service.WatchdogSec": "60s", "Service.Restart": "always", "Service.RestartSec": "5s", "Service.TimeoutStopSec": "",
		"Service.User": "", "Service.StateDirectory": "", "Service.LoadCredential": "nats.nk:/etc/weir/credentials/%N.nk",
		"Service.NoNewPrivileges": "yes", "Service.ProtectSystem": "", "Service.ProtectClock": "yes", "Service.ProtectHostname": "yes",
		"Service.ProtectKernelLogs": "yes", "Service.ProtectKernelModules": "yes", "Service.ProtectKernelTunables": "yes",
		"Service.PrivateDevices": "yes", "Service.RestrictRealtime": "yes", "Service.RestrictSUIDSGID": "yes", "Service.LockPersonality": "yes",
		"Service.CapabilityBoundingSet": "", "Service.SystemCallArchitectures": "native", "Install.WantedBy": "multi-user.target",
	}
}

// confined are further keys of daemons that start no foreign programs.
func confined() map[string]string {
	return map[string]string{
		"Service.ProtectSystem": "strict", "Service.ProtectHome": "yes", "Service.PrivateTmp": "yes", "Service.ProtectControlGroups": "yes",
		"Service.ProtectProc": "invisible", "Service.MemoryDenyWriteExecute": "yes", "Service.RestrictNamespaces": "yes",
		"Service.RestrictAddressFamilies": "", "Service.SystemCallFilter": "@system-service", "Service.UMask": "0077", "Service.CapabilityBoundingSet": "",
	}
}

// startsPrograms reports whether the daemon of a unit starts foreign programs, with needs of their own.
func startsPrograms(name string) bool {
	return slices.Contains([]string{"weir-agent.service", "weir-bootstrap@.service"}, name)
}

// lint returns what a unit file lacks, one line for each key.
func lint(name, text string) (problems []string) {
	u := parse(text)
	want := required()
	if !startsPrograms(name) {
		maps.Copy(want, confined())
		if u["Service.CapabilityBoundingSet"] == nil || strings.Join(u["Service.CapabilityBoundingSet"], "") != "" {
			problems = append(problems, "Service.CapabilityBoundingSet: want no capability")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if value := want[key]; u[key] == nil || value != "" && !slices.Contains(u[key], value) {
			problems = append(problems, key+": want "+value)
		}
	}
	if u["Service.User"] != nil && slices.Contains(u["Service.User"], "root") {
		problems = append(problems, "Service.User: root")
	}
	daemon, _, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(name, "weir-"), ".service"), "@")
	if start := u["Service.ExecStart"]; len(start) != 1 || !strings.HasPrefix(start[0], "/usr/bin/weir "+daemon+" ") {
		problems = append(problems, "Service.ExecStart: want /usr/bin/weir "+daemon)
	}
	return problems
}

func TestUnitsAreHardened(t *testing.T) {
	for _, path := range units(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(path)
		for _, p := range lint(name, string(text)) {
			t.Errorf("%s: %s", name, p)
		}
		// Each key counts: without it the lint has a problem.
		for line := range strings.SplitSeq(string(text), "\n") {
			key, _, ok := strings.Cut(line, "=")
			if _, wanted := required()["Service."+key]; !ok || !wanted {
				continue
			}
			if less := strings.Replace(string(text), "\n"+line+"\n", "\n", 1); len(lint(name, less)) == 0 && strings.Count(string(text), "\n"+key+"=") == 1 {
				t.Errorf("%s without %s has no problem", name, line)
			}
		}
	}
}

// systemd checks the unit files itself: names of keys, values, and the programs.
func TestUnitsAreVerifiedBySystemd(t *testing.T) {
	tool := systemd(t)
	root := t.TempDir()
	folder := filepath.Join(root, "usr/lib/systemd/system")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	// The targets and the programs that the units name.
	for _, target := range []string{"network-online", "nss-lookup", "multi-user", "sysinit", "basic", "shutdown", "-.slice", "system.slice"} {
		if !strings.HasSuffix(target, ".slice") {
			target += ".target"
		}
		if err := os.WriteFile(filepath.Join(folder, target), []byte("[Unit]\nDescription=of the test\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"usr/bin/weir", "bin/kill"} {
		program := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	check := func(t *testing.T, name, text string) string {
		t.Helper()
		name = strings.Replace(name, "@.", "@prod-web.", 1)
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		stdout, stderr, err := tool(t, "verify", "--man=no", "--root="+root, path)
		if err != nil {
			return stdout + stderr + err.Error()
		}
		return knownWarnings(stdout + stderr)
	}
	for _, path := range units(t) {
		name := filepath.Base(path)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if out := check(t, name, string(text)); out != "" {
			t.Errorf("systemd-analyze verify %s:\n%s", name, out)
		}
		if out := check(t, name, strings.Replace(string(text), "NoNewPrivileges=", "NoNewPriviliges=", 1)); !strings.Contains(out, "NoNewPriviliges") {
			t.Errorf("systemd-analyze verify accepts %s with a wrong key:\n%s", name, out)
		}
	}
}

// knownWarnings drops the warnings of older systemd about keys that it ignores.
func knownWarnings(out string) string {
	var rest []string
	for line := range strings.Lines(out) {
		if !strings.Contains(line, "'DelegateSubgroup'") {
			rest = append(rest, line)
		}
	}
	return strings.Join(rest, "")
}
