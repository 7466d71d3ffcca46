package release_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
)

// modules are a test signal and a test SDK with the name of ours.
var modules = map[string]string{
	"go.mod": `module example.com/signal
go 1.26
require github.com/weirkeeper/weirkeeper v1.2.3
replace github.com/weirkeeper/weirkeeper v1.2.3 => ./sdk
`,
	"plugin/main.go":          "package main\nimport \"github.com/weirkeeper/weirkeeper/signals/plugin\"\nfunc main() { plugin.Main() }\n",
	"plain/main.go":           "package main\nimport \"github.com/weirkeeper/weirkeeper/signals\"\nfunc main() { signals.Main() }\n",
	"none/main.go":            "package main\nfunc main() {}\n",
	"sdk/go.mod":              "module github.com/weirkeeper/weirkeeper\ngo 1.26\n",
	"sdk/signals/s.go":        "package signals\n//go:noinline\nfunc Main() { println() }\n",
	"sdk/signals/plugin/p.go": "package plugin\nimport \"github.com/weirkeeper/weirkeeper/signals\"\n//go:noinline\nfunc Main() { signals.Main() }\n",
}

// The SDK and protocol of a Go plugin are read from the binary, stripped or not.
func TestPublishDetectsPlugins(t *testing.T) {
	_, b := startBucket(t)
	dir := writeFolder(t, modules)
	build := func(name string, flags ...string) string {
		out := filepath.Join(t.TempDir(), name)
		cmd := exec.Command("go", append(append([]string{"build", "-o", out}, flags...), "./"+name)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod -trimpath", "CGO_ENABLED=0", "GOPROXY=off", "GOWORK=off")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v: %s", err, text)
		}
		return out
	}
	plugin := build("plugin", "-ldflags=-s -w")
	for i, tc := range []struct {
		name     string
		src      release.Source
		sdk      string
		protocol int
	}{
		{"plugin", release.Source{Path: plugin}, "weirkeeper (devel)", 1},
		{"overridden", release.Source{Path: plugin, SDK: "mine 1", Protocol: 2}, "mine 1", 2},
		{"overridden in part", release.Source{Path: plugin, SDK: "mine 1"}, "mine 1", 1},
		{"signal without a control plane", release.Source{Path: build("plain")}, "", 0},
		{"no signal", release.Source{Path: build("none")}, "", 0},
		{"script", release.Source{Path: filepath.Join(writeFolder(t, map[string]string{"run*": "#!/bin/sh\n"}), "run")}, "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.src.Created = today
			m, err := release.Publish(t.Context(), b, web(string(rune('a'+i))), linux, tc.src)
			if err != nil || m.SDK != tc.sdk || m.Protocol != tc.protocol {
				t.Errorf("Publish = %q, %d, %v; want %q, %d", m.SDK, m.Protocol, err, tc.sdk, tc.protocol)
			}
		})
	}
}
