package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
)

// appList fills the page of all applications of a pool.
func (s detailPages) appList(ctx context.Context, _ *http.Request, name Name, v *listView) error {
	h, err := s.details.Apps(ctx, name, "")
	if err != nil {
		return err
	}
	v.Headline = "Apps"
	t := listSection{ID: "apps", Columns: []string{"App", "Instances", "State", "Version", "Update"}, Empty: "No applications yet. Add one: weir app set NAME --instances 1 --command ..."}
	bad := 0
	for _, a := range h.Apps {
		state, class := "ok", ""
		switch {
		case a.Problem != "":
			state, class = a.Problem, "warn-text"
		case a.Count.Missing > 0:
			state, class = prose.Count(a.Count.Missing, "instance")+" missing", "bad-text"
		case a.Count.Flapping > 0:
			state, class = prose.Count(a.Count.Flapping, "instance")+" crash-looping", "warn-text"
		case a.State == api.AppStopped:
			state = "stopped"
		}
		if class != "" {
			bad++
		}
		update := cellView{Text: updateText(a.Update)}
		if a.Update != nil && a.Update.Halted != nil {
			update.Class = "warn-text"
		}
		t.Rows = append(t.Rows, []cellView{{Text: a.Name, Href: name.appHref(a.Name)}, text(fmt.Sprintf("%d of %d", a.Count.Running, a.Count.Expected)), {Text: state, Class: class}, text(dash(a.Version)), update})
	}
	v.Sentence = prose.Count(len(h.Apps), "app") + ", all of them run."
	if bad > 0 {
		v.Sentence = fmt.Sprintf("%s, %d of them in trouble.", prose.Count(len(h.Apps), "app"), bad)
	}
	v.Sections = append(v.Sections, t)
	return nil
}

// updateText describes the update of an application.
func updateText(u *api.AppUpdate) string {
	switch {
	case u == nil:
		return "–"
	case u.Halted != nil:
		return "halted: " + u.Halted.Why
	}
	return fmt.Sprintf("%s → %s, %s ready", dash(u.From), u.To, prose.Plural(u.Ready, "index", "indices"))
}

// appPage fills the page of one application: its copies by node, its versions, its update, its crashes, and why copies wait.
func (s detailPages) appPage(ctx context.Context, r *http.Request, name Name, v *listView) error {
	app := r.PathValue("app")
	h, err := s.details.Apps(ctx, name, app)
	if err != nil {
		return err
	}
	if h.App == nil {
		return fmt.Errorf("%w: the harmonizer has no app %.64q", errNotFound, app)
	}
	now, a := s.now(), *h.App
	v.Headline, v.Sentence = "App "+app, fmt.Sprintf("%d of %s run.", a.Count.Running, prose.Count(a.Count.Expected, "instance"))
	s.store.read(name, func(_ *series.Ring, k known) {
		for _, one := range k.Apps {
			if one.App == app {
				v.appState(now, one)
			}
		}
	})
	if a.Problem != "" {
		v.Sentence += " " + a.Problem + "."
	}
	if a.Update != nil && a.Update.Halted != nil {
		v.Sentence, v.Class = v.Sentence+" Update "+a.Update.Halted.String(app)+".", "warn-text"
	} else if a.Update != nil {
		v.Sentence += " Update: " + updateText(a.Update) + "."
	}
	v.Figures = []figure{{"", "running", fmt.Sprint(a.Count.Running), "of " + fmt.Sprint(a.Count.Expected)}, {"", "version", dash(a.Version), ""}}
	v.copies(name, a, now)
	s.versions(ctx, name, a, v)
	s.crashes(ctx, name, app, h.Crashes, v)
	v.Retry = &orderForm{Path: name.apiPath() + "/apps/" + escape(app) + "/retry", Title: "Start given-up instances again"}
	return nil
}

// appState adds what the facts of the pool report of an application.
func (v *listView) appState(now time.Time, a condition.Instances) {
	if a.Missing > 0 {
		v.Class = "bad-text"
		v.Sentence += fmt.Sprintf(" %s missing: %s.", prose.Count(a.Missing, "instance"), strings.TrimRight(dash(a.Why), "."))
	}
	if a.Flapping > 0 && a.Crash != nil {
		v.Class = "warn-text"
		v.Sentence += " " + strings.ToUpper(a.Crash.Text(now)[:1]) + a.Crash.Text(now)[1:] + "."
	}
}

// copies adds the copies of an application by index.
func (v *listView) copies(name Name, a api.AppExplanation, now time.Time) {
	t := listSection{ID: "copies", Title: "Copies", Columns: []string{"Copy", "Node", "State", "Version", "Age", "Why"}, Empty: "It has no copy."}
	const most = 300
	for _, i := range a.Indices {
		if len(t.Rows) >= most {
			t.Note = "More copies are not listed."
			break
		}
		if len(i.Instances) == 0 {
			t.Rows = append(t.Rows, []cellView{text(fmt.Sprint(i.Index)), text("–"), {Text: indexState(i), Class: "bad-text"}, text("–"), text("–"), text(indexWhy(i, now))})
		}
		for _, c := range i.Instances {
			t.Rows = append(t.Rows, []cellView{text(fmt.Sprint(i.Index)), {Text: c.Node, Href: name.nodeHref(c.Node)}, copyState(c), text(c.Version), text(age(c.Since, now)), text(copyWhy(c, i, now))})
		}
	}
	v.Sections = append(v.Sections, t)
}

// versions adds the versions of an application, and how far its roll-out is. It leaves out commands, which can hold secrets.
func (s detailPages) versions(ctx context.Context, name Name, a api.AppExplanation, v *listView) {
	t := listSection{ID: "versions", Title: "Versions", Columns: []string{"Version", "State", "Copies", "Set", "Release", "Needs"}, Empty: "No version is stored: the application has no row in this cluster."}
	all, err := s.details.Versions(ctx, name, a.Name)
	if err != nil {
		t.Note = "The versions cannot be read now: " + decide.OneLine(err.Error())
	}
	copies := map[string]int{}
	for _, i := range a.Indices {
		for _, c := range i.Instances {
			copies[c.Version]++
		}
	}
	for i, one := range all {
		t.Rows = append(t.Rows, []cellView{text(one.Version), versionState(one.Version, i == 0, a.Update), text(fmt.Sprint(copies[one.Version])), momentCell(one.At, s.now()),
			text(dash(one.Release)), text(fmt.Sprintf("%g cpus, %g MB", one.CPUs, one.Mem))})
	}
	v.Sections = append(v.Sections, t)
}

// versionState returns what an application does with one of its versions.
func versionState(version string, latest bool, u *api.AppUpdate) cellView {
	switch {
	case u != nil && u.Halted != nil && version == u.Halted.Version:
		return cellView{Text: "halted: " + u.Halted.Why, Class: "warn-text"}
	case u != nil && u.Halted != nil && version == u.Halted.Serves:
		return text("serves")
	case u != nil && u.Halted == nil && version == u.To:
		return text("rolls out, " + fmt.Sprintf("%d ready", u.Ready))
	case u != nil && u.Halted == nil && version == u.From:
		return text("is replaced")
	case latest:
		return text("current")
	}
	return text("earlier")
}

// age returns the time since unix seconds.
func age(since float64, now time.Time) string {
	if since <= 0 {
		return "–"
	}
	return condition.Duration(now.Sub(time.Unix(int64(since), 0)))
}

func indexState(i api.IndexStatus) string {
	switch {
	case i.GivenUp:
		return "given up"
	case i.Flapping:
		return "crash-looping"
	case !i.Missing.IsZero():
		return "missing"
	}
	return "no copy"
}

// indexWhy returns why an index has no copy, and when it starts at the earliest.
func indexWhy(i api.IndexStatus, now time.Time) string {
	var parts []string
	if i.Crashes > 0 {
		parts = append(parts, prose.Plural(i.Crashes, "crash", "crashes")+" in a row")
	}
	if i.Why != "" {
		parts = append(parts, strings.ReplaceAll(string(i.Why), "_", " "))
	}
	if i.NotBefore.After(now) {
		parts = append(parts, "next start in "+condition.Duration(i.NotBefore.Sub(now)))
	}
	return strings.Join(parts, ", ")
}

func copyState(c api.AppInstance) cellView {
	out := cellView{Text: strings.ToLower(string(c.State))}
	switch {
	case !c.Silent.IsZero():
		out = cellView{Text: "unknown: its node is silent", Class: "warn-text"}
	case c.Unready:
		out = cellView{Text: "not ready", Class: "warn-text"}
	}
	return out
}

func copyWhy(c api.AppInstance, i api.IndexStatus, now time.Time) string {
	switch {
	case c.Stopped:
		return "its stop was sent"
	case c.Extra != "":
		return "it should not run: " + strings.ReplaceAll(string(c.Extra), "_", " ")
	case !i.Desired:
		return "it is beyond the desired copies"
	}
	return indexWhy(i, now)
}

// Bounds of the crashes of a page.
const (
	maxCrashes    = 50
	maxOutputLine = 300 // characters
)

// crashes adds the crashes of an application, newest first, with the last lines of their output.
func (s detailPages) crashes(ctx context.Context, name Name, app string, list []api.AppCrash, v *listView) {
	now := s.now()
	t := listSection{ID: "crashes", Title: "Crashes", Columns: []string{"Time", "Copy", "Node", "Version", "Exit", "Last lines"}, Empty: "No crash is known."}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b api.AppCrash) int { return b.At.Compare(a.At) })
	list = list[:min(len(list), maxCrashes)]
	var nodes []string
	for _, c := range list {
		if c.Node != "" && !slices.Contains(nodes, c.Node) {
			nodes = append(nodes, c.Node)
		}
	}
	output := map[string][]string{}
	if len(nodes) > 0 {
		var err error
		if output, err = s.details.Output(ctx, name, app, nodes); err != nil {
			t.Note = "The output of some instances cannot be read now: " + decide.OneLine(err.Error())
		}
	}
	for _, c := range list {
		node := text("–")
		if c.Node != "" {
			node = cellView{Text: c.Node, Href: name.nodeHref(c.Node)}
		}
		t.Rows = append(t.Rows, []cellView{momentCell(c.At, now), text(fmt.Sprint(c.Index)), node, text(c.Version), text(exitText(c)), outputCell(output[c.Instance])})
	}
	v.Sections = append(v.Sections, t)
}

// exitText returns how an instance ended.
func exitText(c api.AppCrash) string {
	if c.Description == "" && c.Status != nil {
		return fmt.Sprintf("exit status %d", *c.Status)
	}
	return cmp.Or(c.Description, string(c.Reason))
}

// outputCell returns lines of a program as a cell.
func outputCell(lines []string) cellView {
	var kept []string
	for _, line := range lines {
		kept = append(kept, series.Cut(strings.TrimRight(line, " \t\r\n"), maxOutputLine))
	}
	return cellView{Text: "–", Output: strings.Join(kept, "\n")}
}
