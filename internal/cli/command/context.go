package command

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/platform/wholefile"
)

// Names of the places that may choose a context. The third one is the key "current" of the file.
const (
	flagContext     = "--context"
	variableContext = "WEIR_CONTEXT"
)

// Context has values of flags of all commands. An empty value gives nothing.
type Context struct {
	ConfigDir string `json:"config_dir,omitempty"` // absolute path
	Data      string `json:"data,omitempty"`       // absolute path
	NATS      string `json:"nats,omitempty"`       // servers, with commas
	Cluster   string `json:"cluster,omitempty"`
	Pool      string `json:"pool,omitempty"`
}

// field is one value of a context, and where else a command gets it from.
type field struct {
	key, flag, variable string
	value               *string
}

// fields returns the values of c, in the order of the file's documentation.
func (c *Context) fields() []field {
	return []field{
		{"config_dir", "config-dir", "WEIR_CONFIG_DIR", &c.ConfigDir}, {"data", "data", "WEIR_DATA", &c.Data}, {"nats", "nats", daemon.VariableNATS, &c.NATS},
		{"cluster", "cluster", "CMAN_CLUSTER", &c.Cluster}, {"pool", "pool", "CMAN_POOL", &c.Pool},
	}
}

// problem returns why the value of a key is not valid; empty if it is.
func (f field) problem() string {
	switch f.key {
	case "config_dir", "data":
		if !filepath.IsAbs(*f.value) {
			return fmt.Sprintf("is %.200q: want an absolute path", *f.value)
		}
	case "nats":
		for i, server := range bus.Split(*f.value) {
			if err := bus.CheckServer(server); err != nil {
				return fmt.Sprintf("server %d %v", i+1, err)
			}
		}
	default:
		if !names.Valid(*f.value) {
			return fmt.Sprintf("is %.200q: %s", *f.value, names.Rule)
		}
	}
	return ""
}

// Contexts is a user's config.yaml. The zero value has no context.
type Contexts struct {
	File    string // path; it need not exist
	Current string // name of a context; empty: none
	All     map[string]Context
	text    string // of the file
	line    int    // of the key "current"; 0 without it
}

// Bounds of the file.
const (
	maxContexts     = 200
	maxContextsFile = 64 << 10 // bytes
)

// LoadContexts reads config.yaml below the user's folder: $XDG_CONFIG_HOME/weir, or else ~/.config/weir. A missing file
// has no contexts.
func LoadContexts() (Contexts, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return Contexts{}, nil // as for a system user without a home
	}
	c := Contexts{File: filepath.Join(dir, "weir", "config.yaml")}
	data, err := inputfile.Read(c.File, maxContextsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, usage.New(fmt.Errorf("read the contexts: %w", err))
	}
	if err := c.decode(data); err != nil {
		return c, usage.New(err)
	}
	return c, nil
}

// decode sets the content of the file. The error has all mistakes, with their lines.
func (c *Contexts) decode(data []byte) error {
	values, problem := strictyaml.Values(data, strictyaml.Bounds{
		Bytes: maxContextsFile, Tokens: 20_000, Nesting: 5, TooMuch: "has more than %d words: want a shorter file",
		Indirect: "has an anchor, an alias or a tag: write the value itself",
	})
	d := decoder{file: c.File}
	switch {
	case problem != nil:
		problem.File = c.File
		return problem
	case len(values) > 1:
		d.add(values[1].Line, "", "is a second document: want one")
	}
	c.text, c.All = string(data), map[string]Context{}
	for _, v := range values[:min(1, len(values))] {
		d.entries(v, "", func(e strictyaml.Entry) {
			switch e.Key {
			case "current":
				c.line, c.Current = e.Line, d.text(e, e.Key)
			case "contexts":
				d.entries(e.Value, e.Key, func(e strictyaml.Entry) { c.All[e.Key] = d.context(e) })
			default:
				d.unknown(e, e.Key, []string{"current", "contexts"})
			}
		})
	}
	if len(c.All) > maxContexts {
		d.add(0, "contexts", fmt.Sprintf("has %d contexts: want at most %d", len(c.All), maxContexts))
	}
	return d.problems.OrNil()
}

// decoder collects the mistakes of a file.
type decoder struct {
	file     string
	problems strictyaml.Problems
}

func (d *decoder) add(line int, key, what string) {
	d.problems = append(d.problems, &strictyaml.Problem{File: d.file, Line: line, Key: strictyaml.Cut(key, 200), What: what})
}

func (d *decoder) unknown(e strictyaml.Entry, path string, known []string) {
	d.add(e.Line, path, "unknown key: want "+strings.Join(known, ", ")+spelling.DidYouMean(e.Key, known))
}

// entries calls each for the entries of a map. Two entries with one key are a mistake.
func (d *decoder) entries(v strictyaml.Value, path string, each func(strictyaml.Entry)) {
	if v.Kind == strictyaml.Null {
		return
	}
	if v.Kind != strictyaml.Map {
		d.add(v.Line, path, "is "+v.Kind.String()+": want a map")
		return
	}
	seen := map[string]bool{}
	for _, e := range v.Entries {
		if seen[e.Key] {
			d.add(e.Line, strings.TrimPrefix(path+"."+e.Key, "."), "is in the file twice: remove one")
			continue
		}
		seen[e.Key] = true
		each(e)
	}
}

// text returns a scalar as written.
func (d *decoder) text(e strictyaml.Entry, path string) string {
	if e.Kind == strictyaml.Map || e.Kind == strictyaml.List {
		d.add(e.Line, path, "is "+e.Kind.String()+": want a text")
		return ""
	}
	if e.Kind == strictyaml.Null {
		return ""
	}
	return e.Text
}

func (d *decoder) context(e strictyaml.Entry) (c Context) {
	path := "contexts." + e.Key
	if !names.Valid(e.Key) {
		d.add(e.Line, path, "is not a name: "+names.Rule)
	}
	d.entries(e.Value, path, func(e strictyaml.Entry) {
		var keys []string
		for _, f := range c.fields() {
			if keys = append(keys, f.key); f.key != e.Key {
				continue
			}
			if *f.value = d.text(e, path+"."+e.Key); *f.value != "" {
				if problem := f.problem(); problem != "" {
					d.add(e.Line, path+"."+e.Key, problem)
				}
			}
			return
		}
		d.unknown(e, path+"."+e.Key, keys)
	})
	return c
}

// Choose returns the context of a command and the place that chose it: the flag, the environment, or the file. Without
// one, the name is empty.
func (c Contexts) Choose(flag string) (name, place string, err error) {
	for _, one := range []struct{ place, name string }{
		{flagContext, flag}, {variableContext, os.Getenv(variableContext)}, {"current in " + c.File, c.Current},
	} {
		if one.name == "" {
			continue
		}
		if _, ok := c.All[one.name]; !ok {
			return "", one.place, fmt.Errorf("%s: %w", one.place, c.Missing(one.name))
		}
		return one.name, one.place, nil
	}
	return "", "", nil
}

// Missing returns the error for a name without a context.
func (c Contexts) Missing(name string) error {
	known := slices.Sorted(maps.Keys(c.All))
	if len(known) == 0 {
		return usage.New(fmt.Errorf("no context %.100q: %s has no contexts; add it there, as \"weir context --help\" shows", name, c.where()))
	}
	return usage.New(fmt.Errorf("no context %.100q in %s%s; \"weir context list\" shows all", name, c.File, spelling.Suggest(name, known)))
}

// where names the file.
func (c Contexts) where() string {
	if c.File == "" {
		return "this user, without HOME and XDG_CONFIG_HOME,"
	}
	return c.File
}

// Use makes a context the current one. It changes only the line of "current" in the file.
func (c Contexts) Use(name string) error {
	if _, ok := c.All[name]; !ok {
		return c.Missing(name)
	}
	lines := strings.SplitAfter(c.text, "\n")
	next := "current: " + name + "\n"
	if c.line > 0 && c.line <= len(lines) {
		lines[c.line-1] = next
	} else {
		lines = slices.Insert(lines, 0, next)
	}
	text := strings.Join(lines, "")
	changed := Contexts{File: c.File}
	if err := changed.decode([]byte(text)); err != nil || changed.Current != name || !maps.Equal(changed.All, c.All) {
		return fmt.Errorf("change %s: its key current is not a line of its own: write \"current: %s\" by hand", c.File, name)
	}
	file, err := filepath.EvalSymlinks(c.File) // a link stays
	if err == nil {
		err = wholefile.Write(file, []byte(text))
	}
	if err != nil {
		return fmt.Errorf("change the current context: %w", err)
	}
	return nil
}

// ignoresContext is the annotation of commands that take nothing from a context.
const ignoresContext = "weir-ignores-context"

// IgnoreContext makes a command take nothing from a context, as daemons do: a file of the user who started a daemon must
// not change what it runs.
func IgnoreContext(cmd *cobra.Command) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[ignoresContext] = "true"
}

// takeContext completes the settings of a command by its context: those that neither a flag, nor the environment, nor
// an argument gives.
func (r *Root) takeContext(cmd *cobra.Command) error {
	if cmd.Annotations[ignoresContext] != "" {
		return nil
	}
	_, err := r.FillFromContext(cmd)
	return err
}

// Filled is one setting of a command, and the place that gives it; empty: the default.
type Filled struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	From  string `json:"from,omitempty"`
}

// FillFromContext is takeContext of a command that may ignore contexts. It returns each setting with its place.
func (r *Root) FillFromContext(cmd *cobra.Command) (all []Filled, err error) {
	contexts, err := LoadContexts()
	if err != nil {
		return nil, err
	}
	name, _, err := contexts.Choose(r.Context)
	if err != nil {
		return nil, err
	}
	chosen := contexts.All[name]
	r.ContextPlace = contexts.where() + ": no current context"
	if name != "" {
		r.ContextPlace = "context " + name + " of " + contexts.File
	}
	to := map[string]*string{"config_dir": &r.Configs, "data": &r.Data, "nats": &r.NATS, "cluster": &r.Cluster, "pool": &r.Pool}
	for _, f := range chosen.fields() {
		from := ""
		switch {
		case cmd.Flags().Changed(f.flag):
			from = "--" + f.flag
		case f.key == "pool" && r.PoolNamed:
			from = "argument"
		case os.Getenv(f.variable) != "":
			from = f.variable
		case *f.value != "":
			from, *to[f.key] = r.ContextPlace, *f.value
		}
		switch f.key {
		case "nats":
			r.NATSFrom = from
		case "cluster", "pool":
			r.Named = r.Named || from != ""
		}
		all = append(all, Filled{f.key, *to[f.key], from})
	}
	return all, nil
}
