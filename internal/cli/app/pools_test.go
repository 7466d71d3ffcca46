package app

import (
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/resource"
)

// A tick of a pool with a maximum of 20 and machines of one cpu: it holds 200 instances of 0.1 cpus.
func recordOf(groups ...api.GroupTarget) api.TickRecord {
	r := api.TickRecord{Case: &api.Case{Groups: groups}}
	r.Case.Input.Policy.Limits.Max = 20
	r.State.Groups = map[string]api.GroupState{"blue": {Seen: map[string]api.SeenMachine{
		"small": {Machine: api.Machine{Resources: resource.Vector{1, 1024, 1024}, Weight: 1}},
		"tiny":  {Machine: api.Machine{Resources: resource.Vector{0.5, 512, 512}, Weight: 1}},
	}}}
	return r
}

func TestAbsurdChanges(t *testing.T) {
	blue, unseen := api.GroupTarget{ID: "blue", Max: 100}, api.GroupTarget{ID: "red", Max: 5}
	row := api.App{Name: "web", Pool: "p", Instances: 2, CPUs: 0.1, Mem: 10, Command: "run"}
	with := func(f func(*api.App)) api.App { r := row; f(&r); return r }
	many, none := with(func(a *api.App) { a.Instances = 9999 }), with(func(a *api.App) { a.CPUs = 0 })
	const most = "pool p holds at most 200 of them at its maximum of 20, if nothing else runs: 10 on a machine of group blue"
	for name, tt := range map[string]struct {
		old, row   api.App
		groups     []api.GroupTarget
		why, warns string
	}{
		"fits":                    {api.App{}, with(func(a *api.App) { a.Instances = 200 }), []api.GroupTarget{blue}, "", ""},
		"too many":                {row, many, []api.GroupTarget{blue}, "application web has 9999 instances, but " + most, ""},
		"maximum of the group":    {row, many, []api.GroupTarget{{ID: "blue", Max: 3}}, "application web has 9999 instances, but pool p holds at most 30 of them at its maximum of 20", ""},
		"were there":              {many, many, []api.GroupTarget{blue}, "", ""},
		"fewer":                   {many, with(func(a *api.App) { a.Instances = 5000 }), []api.GroupTarget{blue}, "", ""},
		"larger":                  {many, with(func(a *api.App) { a.Instances, a.CPUs = 5000, 0.2 }), []api.GroupTarget{blue}, "has 5000 instances, but pool p holds at most 100", ""},
		"stopped":                 {row, with(func(a *api.App) { a.Instances, a.State = 9999, api.AppStopped }), []api.GroupTarget{blue}, "", ""},
		"started":                 {with(func(a *api.App) { a.Instances, a.State = 9999, api.AppStopped }), many, []api.GroupTarget{blue}, "9999 instances, but " + most, ""},
		"no machine holds one":    {row, with(func(a *api.App) { a.CPUs = 50 }), []api.GroupTarget{blue}, "", ""},
		"no cpus":                 {row, none, []api.GroupTarget{blue}, "application web has 0 cpus, so the pool does not grow for its load; pool p holds at most 2040 of them", ""},
		"no cpus as before":       {none, with(func(a *api.App) { a.CPUs, a.Instances = 0, 3 }), []api.GroupTarget{blue}, "", ""},
		"nothing":                 {row, with(func(a *api.App) { a.CPUs, a.Mem = 0, 0 }), []api.GroupTarget{blue}, "0 cpus, so the pool does not grow for its load; pool p holds any number of them", ""},
		"no cpus, unknown":        {row, none, []api.GroupTarget{unseen}, "0 cpus, so the pool does not grow for its load; what pool p can hold is unknown: the machines of group red", ""},
		"unknown, known ones do":  {row, with(func(a *api.App) { a.Instances = 200 }), []api.GroupTarget{blue, unseen}, "", ""},
		"unknown, too many":       {row, many, []api.GroupTarget{blue, unseen}, "", "the size of application web is not checked: what pool p can hold is unknown: the machines of group red"},
		"group that gets nothing": {row, many, []api.GroupTarget{blue, {ID: "off"}}, "9999 instances, but " + most, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var warned strings.Builder
			r := recordOf(tt.groups...)
			p := pool{most: r.Case.Input.Policy.Limits.Max}
			p.kinds, p.unknown = kindsOf(r)
			f := &poolFacts{commands: &commands{&connect.CLI{Root: &command.Root{Stderr: &warned}}}, read: func(string) pool { return p }, pools: map[string]pool{}}
			why := f.absurd(tt.old, tt.row)
			if !strings.Contains(why, tt.why) || why != "" && tt.why == "" || !strings.Contains(warned.String(), tt.warns) || warned.Len() > 0 && tt.warns == "" {
				t.Errorf("absurd = %q, want %q; it warns %q, want %q", why, tt.why, warned.String(), tt.warns)
			}
		})
	}
}

// The scheduler of a pool that runs no rows refuses each application that is to run.
func TestPoolWithoutRowsRefusesApplications(t *testing.T) {
	f := &poolFacts{read: func(name string) pool { return map[string]pool{"k8s": {kind: "kubernetes"}}[name] }, pools: map[string]pool{}}
	row := api.App{Name: "web", Pool: "k8s", Instances: 2}
	const want = "pool k8s runs no applications of Weirkeeper, because its scheduler (kubernetes) has work of its own: create the work there, or use another pool"
	if got := f.refuses(row); got != want {
		t.Errorf("refuses = %q, want %q", got, want)
	}
	for name, row := range map[string]api.App{
		"another pool": {Name: "web", Pool: "web", Instances: 2}, "no instances": {Name: "web", Pool: "k8s"}, "stopped": {Name: "web", Pool: "k8s", Instances: 2, State: api.AppStopped},
	} {
		if got := f.refuses(row); got != "" {
			t.Errorf("%s: refuses = %q, want nothing", name, got)
		}
	}
}
