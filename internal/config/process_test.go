package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap"
)

func TestSignalProcess(t *testing.T) {
	for _, c := range []struct{ name, keys, want string }{
		{"all", `, kind: exec, distinct_app: false, limits: {memory: 512MiB, cpus: 0.5, processes: 64, open_files: 256, address_space: 2GB}, shadow: {version: v2, promote_after: 10, tolerance: 0.1}`, ""},
		{"unknown kind", ", kind: script", `FILE:5: autoscale_signals[0].kind: is "script": want plugin, exec or builtin`},
		{"size without a unit", ", limits: {memory: 512}", `FILE:5: autoscale_signals[0].limits.memory: is 512: want a size such as "512MiB" or "2GB"`},
		{"size of another unit", ", limits: {memory: 5TB}", `FILE:5: autoscale_signals[0].limits.memory: is "5TB": want a size such as "512MiB" or "2GB"`},
		{"size beyond measure", ", limits: {memory: 99999999999GiB}", `FILE:5: autoscale_signals[0].limits.memory: is "99999999999GiB": want a size such as "512MiB" or "2GB"`},
		{"negative limit", ", limits: {cpus: -1}", "FILE:5: autoscale_signals[0].limits.cpus: is negative: want at least 0, which is no limit"},
		{"little address space", ", limits: {address_space: 100MiB}", "FILE:5: autoscale_signals[0].limits.address_space: is 104857600 bytes: want at least 1GiB, a Go program does not start in less"},
		{"shadow without version", ", shadow: {promote_after: 3}", "FILE:5: autoscale_signals[0].shadow.version: is missing: want the version to run beside the pinned one"},
		{"shadow of itself", ", shadow: {version: v1.4.0}", `FILE:5: autoscale_signals[0].shadow.version: is "v1.4.0", the pinned version: want another`},
		{"shadow that is no version", ", shadow: {version: a b}", `FILE:5: autoscale_signals[0].shadow.version: release "x/x@a b": version "a b": want letters, digits and ._+-, with single slashes between`},
		{"tolerance", ", shadow: {version: v2, tolerance: 2}", "FILE:5: autoscale_signals[0].shadow.tolerance: is 2: want 0 to 1, a fraction of the pinned version's answer"},
		{"negative ticks", ", shadow: {version: v2, promote_after: -2}", "FILE:5: autoscale_signals[0].shadow.promote_after: is -2: want a number of ticks, or 0 for never"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readPool(t, goodPool+signals(c.keys))
			expectError(t, err, c.want)
		})
	}
}

func TestBuiltinSignals(t *testing.T) {
	entry := func(keys string) string {
		return goodPool + "autoscale_signals:\n  - {app: web, " + keys + ", required_metrics: [{name: m, type: system_metrics, range: 1m}]}\n"
	}
	for _, c := range []struct{ name, keys, want string }{
		{"good", "name: pending, kind: builtin", ""},
		{"not shipped", "name: rps, kind: builtin", `FILE:5: autoscale_signals[0].name: is "rps": weir ships calendar, default, forecast, instance_count, pending`},
		{"with a version", "name: pending, kind: builtin, version: v1", "FILE:5: autoscale_signals[0].version: is not for kind builtin, whose version is that of weir: remove it"},
		{"with a shadow", "name: pending, kind: builtin, shadow: {version: v1}", "FILE:5: autoscale_signals[0].shadow: is not for kind builtin, whose version is that of weir: remove it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readPool(t, entry(c.keys))
			expectError(t, err, c.want)
		})
	}
}

func TestSignalPlans(t *testing.T) {
	p := mustReadPool(t, goodPool+signals(", kind: exec, distinct_app: false, limits: {memory: 512MiB, cpus: 0.5, address_space: 2GiB}, shadow: {version: v2, promote_after: 10}"))
	want := bootstrap.NewSignalPlan("web", "shop", "rps", "v1.4.0")
	want.Kind, want.FixedApp = api.KindExec, true
	want.Limits = bootstrap.Limits{Memory: 512 << 20, CPUs: 0.5, Processes: 256, OpenFiles: 1024, AddressMB: 2048}
	want.Shadow = &bootstrap.ShadowPlan{Version: "v2", PromoteAfter: 10, Tolerance: 0.05}
	if diff := cmp.Diff(want, p.Signals[0].plan()); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

// A signal without limits in its file has the default ones. 0 is unlimited.
func TestSignalLimits(t *testing.T) {
	usual := bootstrap.Limits{Memory: int64(defaultMemory), Processes: 256, OpenFiles: 1024}
	for keys, want := range map[string]bootstrap.Limits{
		"":                                  usual,
		", limits: {}":                      usual,
		", limits: {processes: 20}":         {Memory: int64(defaultMemory), Processes: 20, OpenFiles: 1024},
		", limits: {memory: 0B, cpus: 0.5}": {CPUs: 0.5, Processes: 256, OpenFiles: 1024},
		", limits: {memory: 0B, processes: 0, open_files: 0}": {},
	} {
		p := mustReadPool(t, goodPool+signals(keys))
		if got := p.Signals[0].plan().Limits; got != want {
			t.Errorf("%q: limits %+v, want %+v", keys, got, want)
		}
	}
	service, err := LoadService(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if got := Bootstrap(service, mustReadPool(t, goodPool)).Signals[0].Limits; got != usual {
		t.Errorf("limits of the default signal %+v, want %+v", got, usual)
	}
}

func TestSignalEnvironment(t *testing.T) {
	p := mustReadPool(t, goodPool+signals(", environment: [SHOP_URL, DATABASE_URL, SHOP_URL]"))
	if got, want := p.Signals[0].plan().Environment, "DATABASE_URL SHOP_URL"; got != want {
		t.Errorf("environment %q, want %q", got, want)
	}
	for _, name := range []string{`""`, "A=b", "a b", "A-B", "WEIR_KEEPER", "WEIR_SIGNAL_PEER"} {
		_, err := readPool(t, goodPool+signals(", environment: ["+name+"]"))
		expectError(t, err, fmt.Sprintf("FILE:5: autoscale_signals[0].environment[0]: is %q: want the name of a variable of bootstrap's environment, such as DATABASE_URL", strings.Trim(name, `"`)))
	}
}

func TestSignalUsers(t *testing.T) {
	for _, c := range []struct {
		text        string
		first, last int
		bad         bool
	}{
		{"", 60706, 61183, false}, {"signal_users: none", 0, 0, false}, {"signal_users: 70000-70999", 70000, 70999, false},
		{"signal_users: 0-99", 0, 0, true}, {"signal_users: 70999-70000", 0, 0, true}, {"signal_users: 70000-", 0, 0, true},
		{"signal_users: 70000-99999999999", 0, 0, true}, {"signal_users: some", 0, 0, true},
	} {
		dir := t.TempDir()
		file := writeFile(t, filepath.Join(dir, "weir.yaml"), c.text+"\n")
		s, err := LoadService(dir)
		if c.bad {
			_, value, _ := strings.Cut(c.text, ": ")
			expectError(t, replaceText(err, file, "FILE"), fmt.Sprintf("FILE:1: signal_users: is %q: want a range of user ids from 1000 on that no account has, such as 60706-61183, or none", value))
			continue
		}
		if first, last := s.Users(); err != nil || first != c.first || last != c.last {
			t.Errorf("%q: users %d to %d, %v; want %d to %d", c.text, first, last, err, c.first, c.last)
		}
	}
}

func TestRegexMetrics(t *testing.T) {
	metric := func(m string) string {
		return goodPool + "autoscale_signals:\n  - {app: web, namespace: shop, name: rps, version: v1, required_metrics: [" + m + "]}\n"
	}
	for _, c := range []struct{ metric, want string }{
		{"{name: '^web,rq_', type: app_metrics, range: 1m, regex: true}", ""},
		{"{name: 'rq_[', type: app_metrics, range: 1m, regex: true}", "FILE:5: autoscale_signals[0].required_metrics[0].name: is not a regular expression: error parsing regexp: missing closing ]: `[`"},
		{"{name: rq_, type: system_metrics, range: 1m, regex: true}", "FILE:5: autoscale_signals[0].required_metrics[0].regex: is only for type app_metrics: remove it"},
	} {
		_, err := readPool(t, metric(c.metric))
		expectError(t, err, c.want)
	}
}

func TestReleases(t *testing.T) {
	const key = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"
	for _, c := range []struct{ name, text, want string }{
		{"signed only", "releases: {trusted_keys: [" + key + "], require_signature: true, keep: 24h}\n", ""},
		{"clusterman", "releases: {layout: clusterman, codename: jammy}\n", ""},
		{"no key", "releases: {require_signature: true}\n", "FILE:1: releases.require_signature: needs trusted_keys: add the keys of the signers"},
		{"unknown layout", "releases: {layout: tar}\n", `FILE:1: releases.layout: is "tar": want weir or clusterman`},
		{"no codename", "releases: {layout: clusterman}\n", "FILE:1: releases.codename: is missing: want the folder of the tarballs in the bucket"},
		{"codename without a use", "releases: {codename: jammy}\n", "FILE:1: releases.codename: is only for layout clusterman: remove it"},
		{"signed tarballs", "releases: {layout: clusterman, codename: jammy, require_signature: true, trusted_keys: [" + key + "]}\n",
			"FILE:1: releases.require_signature: cannot be set with layout clusterman, which has no signatures: set it to false, or remove trusted_keys"},
		{"tarballs of trusted keys", "releases: {layout: clusterman, codename: jammy, trusted_keys: [" + key + "]}\n",
			"FILE:1: releases.require_signature: cannot be set with layout clusterman, which has no signatures: set it to false, or remove trusted_keys"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			file := writeFile(t, filepath.Join(dir, "weir.yaml"), c.text)
			_, err := LoadService(dir)
			expectError(t, replaceText(err, file, "FILE"), c.want)
		})
	}
	for text, want := range map[string]bool{
		"{}": false, "{trusted_keys: [" + key + "]}": true, "{trusted_keys: [" + key + "], require_signature: false}": false,
	} {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, "weir.yaml"), "releases: "+text+"\n")
		if s, err := LoadService(dir); err != nil || s.Releases.SignatureRequired() != want {
			t.Errorf("releases %s: signature required %v, %v, want %v", text, s.Releases.SignatureRequired(), err, want)
		}
	}
	if s, err := LoadService(t.TempDir()); err != nil || s.Releases.Keep != 7*24*time.Hour {
		t.Errorf("releases are kept %v, %v; want a week", s.Releases.Keep, err)
	}
}

// TestFilesDecodeWhatWasRead changes a file after it was read. Decode uses the text that was read.
func TestFilesDecodeWhatWasRead(t *testing.T) {
	dir := t.TempDir()
	file := writeFile(t, filepath.Join(dir, "prod", "default.yaml"), goodPool)
	files, err := Read(dir, "prod", "default")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, file, "nonsense: [")
	if _, pool, err := files.Decode(); err != nil || *pool.Limits.Max != 3 {
		t.Errorf("decoded max %v, %v; want 3", pool.Limits.Max, err)
	}
	if !files.Service.Missing {
		t.Error("Missing = false for a missing service file, want true")
	}
}
