package command

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
)

// The first place that names servers is used. Credentials and TLS are those of weir.yaml.
func TestBusIsFoundInOneOrder(t *testing.T) {
	configs := t.TempDir()
	path := filepath.Join(configs, "weir.yaml")
	file := bus.NATS{Servers: []string{"nats://file"}, NKeyFile: "/k"}
	for name, tc := range map[string]struct {
		settings daemon.Settings
		own      string // of the harmonizer's file
		n        bus.NATS
		exists   bool
		want     bus.NATS
		places   []string
	}{
		"flag": {daemon.Settings{NATS: "nats://u:hush@a, nats://b", NATSFrom: daemon.FlagNATS}, "nats://own", file, true,
			bus.NATS{Servers: []string{"nats://u:hush@a", "nats://b"}}, []string{"--nats: nats://a,nats://b"}},
		"environment": {daemon.Settings{NATS: "nats://a", NATSFrom: daemon.VariableNATS}, "nats://own", file, true,
			bus.NATS{Servers: []string{"nats://a"}, NKeyFile: "/k"}, []string{"--nats: not given", "WEIR_NATS: nats://a"}},
		"the harmonizer's file": {daemon.Settings{}, "nats://own", file, true,
			bus.NATS{Servers: []string{"nats://own"}, NKeyFile: "/k"}, []string{"--nats: not given", "WEIR_NATS: not set", "mbus: nats://own"}},
		"weir.yaml": {daemon.Settings{}, "", file, true, file, []string{"--nats: not given", "WEIR_NATS: not set", "mbus: not given", path + ": nats://file"}},
		"data folder": {daemon.Settings{}, "", bus.NATS{}, true, bus.NATS{},
			[]string{"--nats: not given", "WEIR_NATS: not set", "mbus: not given", path + ": no nats.servers"}},
		"no file": {daemon.Settings{}, "", bus.NATS{}, false, bus.NATS{},
			[]string{"--nats: not given", "WEIR_NATS: not set", "mbus: not given", path + ": no such file"}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.settings.Configs = configs
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if tc.exists {
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c := tc.settings.BusOf("mbus", tc.own, tc.n, "test", slog.New(slog.DiscardHandler))
			if diff := cmp.Diff(tc.want, c.NATS) + cmp.Diff(tc.places, c.Places); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorNamesEachPlaceOfTheBus(t *testing.T) {
	s := daemon.Settings{Data: t.TempDir(), Configs: t.TempDir()}
	_, err := bus.Find(t.Context(), s.Bus(bus.NATS{}, "test", slog.New(slog.DiscardHandler)))
	want := "nothing runs in data folder " + s.Data + `: start it with "weir up", or name another with --data or --nats (--nats: not given; WEIR_NATS: not set; ` +
		s.Configs + "/weir.yaml: no such file; data folder: no NATS server runs in it)"
	if !errors.Is(err, bus.ErrNoBus) || err.Error() != want {
		t.Errorf("err = %v, want %s", err, want)
	}
	s.NATS, s.NATSFrom = "nats://u:hush@127.0.0.1:1", daemon.VariableNATS
	_, err = bus.Find(t.Context(), s.Bus(bus.NATS{}, "test", slog.New(slog.DiscardHandler)))
	if err == nil || !strings.HasSuffix(err.Error(), "(--nats: not given; WEIR_NATS: nats://127.0.0.1:1)") || strings.Contains(err.Error(), "hush") {
		t.Errorf("err = %v, want the place that names the server, and no secret", err)
	}
}

func TestWrongServersAreAUsageError(t *testing.T) {
	for from, set := range map[string]func(*Root){
		daemon.FlagNATS:     func(r *Root) { r.NATS = "nats://a, http://u:hush@b" },
		daemon.VariableNATS: func(*Root) { t.Setenv(daemon.VariableNATS, "nats://a,http://u:hush@b") },
	} {
		r := &Root{Stdout: io.Discard, Stderr: io.Discard}
		set(r)
		err := r.takeNATS()
		if want := from + `: server 2 has the scheme "http"`; err == nil || ExitCode(err) != 2 || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, want code 2 and %s", from, err, want)
		}
	}
}
