package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// Each command that names a running release prints that it is yanked, also that of a candidate.
func TestYankedReleaseIsPrinted(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	b := openBus(t, data)
	storeTick(t, b, "default", decidedTick("default", time.Now().UTC()))
	running := func(app, version, yanked string) api.Process {
		return api.Process{App: app, Signal: "shop/rps", Version: version, State: "running", PID: 7, Since: time.Now(), Yanked: yanked}
	}
	web, backend := running("web", "v1.0.0", "counts\x1b[2J twice"), running("api", "v2.0.0", "")
	candidate := running("api", "v3.0.0", "it leaks")
	backend.Candidate = &candidate
	status, err := json.Marshal(api.BootstrapStatus{PoolProcesses: api.PoolProcesses{Signals: []api.Process{web, backend}}})
	if err != nil {
		t.Fatal(err)
	}
	answer(t, b.Conn(), names.BootstrapSubject("local", "default", "status"), status)
	for line, want := range map[string][]string{
		"status":                {`! web (shop/rps) runs v1.0.0, which is yanked: counts`, `! api (shop/rps) runs v3.0.0, which is yanked: it leaks; pin another version`},
		"signal ps":             {"yanked: counts", "yanked: it leaks"},
		"signal where shop/rps": {"YANKED: counts", "v2.0.0  running", "YANKED: it leaks"},
	} {
		r := weir(append(strings.Fields(line), "--data", data, "--config-dir", muteConfig(t))...)
		for _, text := range want {
			if !strings.Contains(r.stdout, text) {
				t.Errorf("weir %s: %+v, want %q", line, r, text)
			}
		}
		if strings.Contains(r.stdout, "\x1b") {
			t.Errorf("weir %s prints an escape sequence: %q", line, r.stdout)
		}
	}
}
