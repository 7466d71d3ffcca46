package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
)

// Details is where the pages of nodes, applications and events read. It is safe for concurrent use. An error means that the part
// does not answer.
type Details interface {
	// Nodes returns the nodes of a pool with their usage now.
	Nodes(ctx context.Context, pool Name) ([]api.Node, error)
	// Health returns the state of nodes, or their history. Without a policy it is zero.
	Health(ctx context.Context, pool Name, q api.HealthQuery) (api.HealthStatus, error)
	// Apps returns the applications of a pool, or one of them with its crashes. Without it App is nil.
	Apps(ctx context.Context, pool Name, app string) (api.HarmonizerStatus, error)
	// Output returns the last lines of the instances of an application that ended on these nodes, by instance. With an error it has
	// those of the nodes that answered.
	Output(ctx context.Context, pool Name, app string, nodes []string) (map[string][]string, error)
	// Versions returns the version of the row of an application, and then the earlier ones, the latest first. Without a row the list is empty.
	Versions(ctx context.Context, pool Name, app string) ([]api.AppVersion, error)
	// Events calls visit with the events of a pool from from until to, oldest first.
	Events(ctx context.Context, pool Name, from, to time.Time, visit func(api.Event) error) error
}

// detailPages serves the pages of nodes, applications and events.
type detailPages struct{ *Server }

// listView is a page of tables: the nodes of a pool, a node, the applications, an application, or the events.
type listView struct {
	frame
	Headline string
	Sentence string
	Class    string // of the sentence
	Tabs     []link
	Figures  []figure
	Sections []listSection
	Filter   *eventFilter // of the events
	Retry    *orderForm   // of an application
}

// listSection is a table with its title.
type listSection struct {
	ID, Title string
	Empty     string // in place of a table without rows
	Note      string // below the table
	Columns   []string
	Rows      [][]cellView
}

// cellView is a cell of a table.
type cellView struct {
	Text, Href, Class string
	At                time.Time // a time; Text is its form in UTC
	Output            string    // lines of a program, in place of Text
}

// orderForm is the form of an order to the API.
type orderForm struct {
	Path, Title string
	Amount      string // label of a number; empty without a number
	Timed       bool   // it has a length
}

// detail serves a page of a pool that make fills.
func (s detailPages) detail(make func(ctx context.Context, r *http.Request, name Name, v *listView) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := Name{r.PathValue("cluster"), r.PathValue("pool")}
		if !s.store.read(name, func(*series.Ring, known) {}) {
			s.noPool(w, r, name, errNoPool)
			return
		}
		if s.details == nil {
			s.problem(w, r, http.StatusNotFound, "This page does not exist", "This server shows pools only.")
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), pastLimit)
		defer cancel()
		v := listView{Tabs: tabs(name, r.URL.Path)}
		err := make(ctx, r, name, &v)
		switch {
		case errors.Is(err, errNotFound):
			s.problem(w, r, http.StatusNotFound, "Not found in pool "+name.Pool, err.Error())
			return
		case err != nil:
			s.log.Warn("a page has no data", "path", r.URL.Path, "err", err)
			s.problem(w, r, http.StatusServiceUnavailable, "This part does not answer", "It cannot be read now: "+decide.OneLine(err.Error())+". Try again later.")
			return
		}
		crumbs := []crumb{{name.Pool, name.href()}, {v.Headline, ""}}
		page := s.frame(v.Headline+" · "+name.Pool, crumbs)
		v.frame = page
		v.Live = "as of " + s.now().UTC().Format(time.TimeOnly) + " UTC"
		s.page(w, r, http.StatusOK, listPage(v))
	}
}

// errNotFound: no node or application has this name.
var errNotFound = errors.New("no such object")

// tabs returns the links between the pages of a pool. path is the present one.
func tabs(name Name, path string) (out []link) {
	for _, one := range []struct{ text, href string }{
		{"Overview", name.href()}, {"Nodes", name.href() + "/nodes"}, {"Apps", name.href() + "/apps"}, {"Events", name.href() + "/events"},
	} {
		out = append(out, link{one.text, one.href, one.href == path})
	}
	return out
}

func (n Name) nodeHref(id string) string { return n.href() + "/nodes/" + escape(id) }

func (n Name) appHref(app string) string { return n.href() + "/apps/" + escape(app) }

func text(s string) cellView { return cellView{Text: s} }

func dash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// momentCell returns a time as a cell, with its date if it is not of today.
func momentCell(at, now time.Time) cellView {
	if at.IsZero() {
		return text("–")
	}
	layout := time.TimeOnly
	if now.UTC().Format(time.DateOnly) != at.UTC().Format(time.DateOnly) {
		layout = "2 Jan " + time.TimeOnly
	}
	return cellView{Text: at.UTC().Format(layout), At: at}
}

// nodeList fills the page of all nodes of a pool.
func (s detailPages) nodeList(ctx context.Context, _ *http.Request, name Name, v *listView) error {
	nodes, err := s.details.Nodes(ctx, name)
	if err != nil {
		return err
	}
	v.Headline = "Nodes"
	t := listSection{ID: "nodes", Columns: []string{"Node", "Group", "State", "Health", "Instances", "Age"}, Empty: "No node is known."}
	unhealthy, then := 0, 0
	for _, n := range nodes {
		if strings.HasPrefix(n.State, api.NodeWas) {
			then++
		}
		health := cellView{Text: dash(n.Health)}
		if n.Health != "" && n.Health != string(api.StateHealthy) && n.Health != string(api.StateFresh) {
			health.Class = "warn-text"
			unhealthy++
		}
		age := "–"
		if n.Uptime > 0 {
			age = condition.Duration(time.Duration(n.Uptime) * time.Second)
		}
		t.Rows = append(t.Rows, []cellView{{Text: n.Node, Href: name.nodeHref(n.Node)}, text(dash(n.Group)), text(n.State), health, text(fmt.Sprint(n.Tasks)), text(age)})
	}
	v.Sentence = prose.Count(len(nodes), "node") + ", all of them healthy or without a health policy."
	if unhealthy > 0 {
		v.Sentence = fmt.Sprintf("%s, %d of them unhealthy.", prose.Count(len(nodes), "node"), unhealthy)
	}
	if then > 0 {
		v.Sentence = fmt.Sprintf("The pool has no tick now: %s of the last tick, %d of them without a report of now.", prose.Count(len(nodes), "node"), then)
	}
	v.Sections = append(v.Sections, t)
	return nil
}
