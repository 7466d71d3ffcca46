package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/daemon"
)

// userFile writes a user's config.yaml.
func userFile(t *testing.T, text string) (path string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	path = filepath.Join(dir, "weir", "config.yaml")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const twoContexts = `# mine
current: prod   # of the day
contexts:
  prod: {config_dir: /p, cluster: prod, pool: web, nats: "nats://a,nats://b"}
  lab:
    data: /lab
    cluster: lab
`

// settingsOf runs a command line and returns its settings.
func settingsOf(t *testing.T, daemon bool, args ...string) (daemon.Settings, error) {
	t.Helper()
	r := &Root{Stdout: &strings.Builder{}, Stderr: &strings.Builder{}}
	root := r.Command()
	one := &cobra.Command{Use: "one", RunE: func(*cobra.Command, []string) error { return nil }}
	if daemon {
		IgnoreContext(one)
	}
	root.AddCommand(one)
	err := r.Run(root, append([]string{"one"}, args...))
	return r.Settings, err
}

// A context gives what neither a flag nor the environment gives, and nothing to a daemon.
func TestContextFillsWhatIsNotGiven(t *testing.T) {
	file := userFile(t, twoContexts)
	for _, name := range []string{"WEIR_DATA", "WEIR_CONFIG_DIR", "WEIR_NATS", "CMAN_CLUSTER", "CMAN_POOL", variableContext} {
		t.Setenv(name, "")
	}
	plain := daemon.Settings{LogLevel: "info", LogFormat: "text"}
	with := func(change func(*daemon.Settings)) daemon.Settings {
		s := plain
		change(&s)
		return s
	}
	prod := with(func(s *daemon.Settings) {
		s.Configs, s.Cluster, s.Pool, s.NATS = "/p", "prod", "web", "nats://a,nats://b"
		s.ContextPlace = "context prod of " + file
		s.NATSFrom = s.ContextPlace
	})
	for name, tc := range map[string]struct {
		env    map[string]string
		args   []string
		daemon bool
		want   daemon.Settings
	}{
		"current": {nil, nil, false, prod},
		"flag": {nil, []string{"--pool", "batch", "--nats", "nats://c"}, false, func() daemon.Settings {
			s := prod
			s.Pool, s.NATS, s.NATSFrom = "batch", "nats://c", daemon.FlagNATS
			return s
		}()},
		"environment": {map[string]string{"CMAN_CLUSTER": "other", "WEIR_NATS": "nats://d"}, nil, false, func() daemon.Settings {
			s := prod
			s.Cluster, s.NATS, s.NATSFrom = "other", "nats://d", daemon.VariableNATS
			return s
		}()},
		"chosen by the flag": {map[string]string{variableContext: "prod"}, []string{"--context", "lab"}, false, with(func(s *daemon.Settings) {
			s.Data, s.Cluster, s.Pool, s.NATSFrom, s.ContextPlace = "/lab", "lab", "default", daemon.VariableNATS, "context lab of "+file
		})},
		"chosen by the environment": {map[string]string{variableContext: "lab"}, nil, false, with(func(s *daemon.Settings) {
			s.Data, s.Cluster, s.Pool, s.NATSFrom, s.ContextPlace = "/lab", "lab", "default", daemon.VariableNATS, "context lab of "+file
		})},
		"daemon": {nil, []string{"--context", "lab"}, true, with(func(s *daemon.Settings) { s.Cluster, s.Pool, s.NATSFrom = "local", "default", daemon.VariableNATS })},
	} {
		t.Run(name, func(t *testing.T) {
			for key, value := range tc.env {
				t.Setenv(key, value)
			}
			got, err := settingsOf(t, tc.daemon, tc.args...)
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("%v, settings (-want +got):\n%s", err, diff)
			}
		})
	}
	if _, err := settingsOf(t, false, "--context", "prd"); ExitCode(err) != ExitUsage || !strings.Contains(err.Error(), "did you mean prod") {
		t.Errorf("--context prd: %v, want a mistake with the nearest name", err)
	}
}

// The mistakes of the file have their lines.
func TestContextFileMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"contexts: [a]":                             "config.yaml:1: contexts: is a list: want a map",
		"contexts:\n  a: {cluster: a.b}":            `config.yaml:2: contexts.a.cluster: is "a.b"`,
		"contexts:\n  a: {data: x}":                 `config.yaml:2: contexts.a.data: is "x": want an absolute path`,
		"contexts:\n  a: {nats: \"http://x\"}":      "config.yaml:2: contexts.a.nats: server 1 has the scheme",
		"contexts:\n  a: {clutser: x}":              "did you mean cluster?",
		"contexts:\n  a: {}\n  a: {}":               "config.yaml:3: contexts.a: is in the file twice",
		"contexts:\n  a b: {}":                      "config.yaml:2: contexts.a b: is not a name",
		"contxts: {}":                               "config.yaml:1: contxts: unknown key: want current, contexts; did you mean contexts?",
		"current: {}":                               "config.yaml:1: current: is a map: want a text",
		"current: gone":                             `current in `,
		"a: &x {}":                                  "config.yaml:1: ",
		"contexts: {}\n---\ncontexts: {}":           "is a second document",
		strings.Repeat("#", maxContextsFile+1):      "config.yaml",
		"contexts:\n  a: {pool: [web], cluster: x}": "config.yaml:2: contexts.a.pool: is a list: want a text",
	} {
		file := userFile(t, text)
		_, err := settingsOf(t, false)
		if ExitCode(err) != ExitUsage || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), filepath.Dir(file)) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
}

// Use changes the line of the current context only.
func TestContextUse(t *testing.T) {
	for text, want := range map[string]string{
		twoContexts:                                              strings.Replace(twoContexts, "current: prod   # of the day", "current: lab", 1),
		"contexts:\n  lab: {}\n# end\n":                          "current: lab\ncontexts:\n  lab: {}\n# end\n",
		"{current: prod, contexts: {lab: {}}}\n":                 "",
		"---\ncontexts: {lab: {}}\n":                             "",
		"contexts:\n  lab: {cluster: x}\ncurrent: gone\n# end\n": "contexts:\n  lab: {cluster: x}\ncurrent: lab\n# end\n",
	} {
		file := userFile(t, text)
		contexts, err := LoadContexts()
		if err != nil {
			t.Fatal(err)
		}
		err = contexts.Use("lab")
		got, errRead := os.ReadFile(file)
		if errRead != nil {
			t.Fatal(errRead)
		}
		if want == "" {
			if want = text; err == nil || !strings.Contains(err.Error(), `write "current: lab" by hand`) {
				t.Errorf("use lab of %q: %v, want how to do it by hand", text, err)
			}
		} else if err != nil {
			t.Error(err)
		}
		if string(got) != want {
			t.Errorf("use lab of %q: %q, want %q", text, got, want)
		}
	}
}

func FuzzContexts(f *testing.F) {
	f.Add([]byte(twoContexts))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := Contexts{File: "config.yaml"}
		if err := c.decode(data); err == nil && len(c.All) > maxContexts {
			t.Errorf("%d contexts", len(c.All))
		}
	})
}
