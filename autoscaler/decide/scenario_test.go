package decide_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/resource"
)

var update = flag.Bool("update", false, "write what Decide does into the scenarios")

// A scenario is a file of cases. NAME.json is laid over usualPool, and over base.json if there is
// one. NAME.want is the result of Decide.
func TestScenarios(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	if err != nil || paths == nil {
		t.Fatalf("scenarios: %v, %v", paths, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			runScenario(t, archive)
			if *update {
				if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// runScenario checks each case, or writes it again into the archive.
func runScenario(t *testing.T, archive *txtar.Archive) {
	files := make(map[string]string)
	for _, f := range archive.Files {
		files[f.Name] = string(f.Data)
	}
	var rewritten []txtar.File
	for _, f := range archive.Files {
		name, isCase := strings.CutSuffix(f.Name, ".json")
		if strings.HasSuffix(f.Name, ".want") {
			continue
		}
		rewritten = append(rewritten, f)
		if !isCase || name == "base" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			got := render(decide.Decide(usualPool(t, files["base.json"], files[f.Name])))
			if !*update {
				if diff := cmp.Diff(strings.TrimSpace(files[name+".want"]), strings.TrimSpace(got)); diff != "" {
					t.Errorf("want (-), got (+):\n%s", diff)
				}
			}
			rewritten = append(rewritten, txtar.File{Name: name + ".want", Data: []byte(got)})
		})
	}
	archive.Files = rewritten
}

// usualPool returns a healthy pool of six machines, with the texts laid over it. By default an app
// holds its responses for half an hour.
func usualPool(t *testing.T, texts ...string) api.DecisionInput {
	t.Helper()
	in := api.DecisionInput{
		Now: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC),
		Capacity: api.PoolCapacity{
			Target: 6, Joined: 6,
			Totals: resource.Vector{resource.CPUs: 6, resource.Mem: 12000, resource.Disk: 60000},
		},
		Policy: api.DecisionPolicy{
			Setpoint: 0.7, MarginUp: 0.1, MarginDown: 0.1, Combine: api.CombineSum,
			Limits: api.TargetLimits{Min: 3, Max: 100, MaxAdd: 200, MaxRemove: 10},
		},
	}
	for _, text := range texts {
		if text == "" {
			continue
		}
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&in); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	for i := range in.Apps {
		if in.Apps[i].HoldFor == 0 {
			in.Apps[i].HoldFor = 30 * time.Minute
		}
	}
	return in
}

func render(d decide.Decision) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "target %v, rounded up %v; request %v\n", d.Target, max(0, math.Ceil(d.Target-1e-9)), d.Request)
	for _, s := range d.Steps {
		fmt.Fprintf(&b, "%-9s %6.2f -> %6.2f  %s\n", shortRule(s.Rule), s.Before, s.After, s.Why)
	}
	for _, r := range d.Apps {
		fmt.Fprintf(&b, "app %s: %s, %v", r.App, r.Source, r.Request)
		if r.Fallback {
			b.WriteString(", stand-in")
		}
		b.WriteByte('\n')
	}
	for _, h := range d.State.Held {
		fmt.Fprintf(&b, "remember %s %v=%v of %s\n", h.App, h.Kind, h.Value, h.At.Format("15:04"))
	}
	for _, x := range d.State.UnknownNeed {
		fmt.Fprintf(&b, "remember %s unheard since %s\n", x.App, x.Since.Format("15:04"))
	}
	for _, l := range d.State.Losses {
		fmt.Fprintf(&b, "remember %d lost at %s\n", l.Nodes, l.At.Format("15:04"))
	}
	if d.State.Offset != 0 {
		fmt.Fprintf(&b, "remember an offset of %v\n", d.State.Offset)
	}
	return b.String()
}

func shortRule(r api.Rule) string {
	switch r {
	case api.RuleUnknownNeed:
		return "ignorance"
	case api.RuleHealth:
		return "health"
	}
	return string(r)
}
