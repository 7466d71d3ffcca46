package apiserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/history/redecide"
)

// pageWithin bounds the time of one page. A page that ends early states where the next one begins.
const pageWithin = 10 * time.Second

const normalLimit, mostLimit = 100, 1000

func (c *call) ticks() (any, error) {
	from, to, err := c.span()
	if err != nil {
		return nil, err
	}
	limit, err := c.integer("limit", normalLimit, 1, mostLimit)
	if err != nil {
		return nil, err
	}
	changed := c.value("changed")
	if changed != "" && changed != "true" && changed != "false" {
		return nil, wrong("parameter changed is %.40q: want true or false", changed)
	}
	page := api.Ticks{Ticks: []api.Summary{}}
	page.Unreadable, err = history.NewFeed(c.Cluster).Ticks(c.request.Context(), c.pool.Past, from, to, func(t history.ComparedTick) error {
		switch {
		case len(page.Ticks) == limit || c.late():
			page.Next = t.At
			return history.ErrStop
		case changed == "true" && !t.Changed():
			return nil
		}
		page.Ticks = append(page.Ticks, t.Summary)
		return nil
	})
	return page, err
}

// late reports whether the page takes too long.
func (c *call) late() bool { return time.Since(c.now) > pageWithin }

// record returns the record of the tick in the path.
func (c *call) record() (*api.TickRecord, error) {
	at, err := parseTime("the tick", c.request.PathValue("at"))
	if err != nil {
		return nil, err
	}
	r, err := c.pool.Past.Record(c.request.Context(), at)
	if err == nil && r == nil {
		err = &problem{http.StatusNotFound, fmt.Errorf("the ledger of pool %s has no tick that began at %s", c.name, at.Format(time.RFC3339Nano))}
	}
	return r, err
}

func (c *call) tick() (any, error) { return c.record() }

func (c *call) again() (any, error) {
	var overrides []redecide.Override
	for _, text := range c.query["set"] {
		o, err := redecide.ParseOverride(text)
		if err != nil {
			return nil, wrong("set: %w", err)
		}
		overrides = append(overrides, o)
	}
	r, err := c.record()
	if err != nil {
		return nil, err
	}
	one, result, err := redecide.Tick(*r, overrides)
	if err != nil {
		return nil, &problem{http.StatusConflict, err}
	}
	return api.DecidedAgain{Redecided: one, Result: result}, nil
}

func (c *call) events() (any, error) {
	from, to, err := c.span()
	if err != nil {
		return nil, err
	}
	limit, err := c.integer("limit", normalLimit, 1, mostLimit)
	if err != nil {
		return nil, err
	}
	for _, kind := range c.query["kind"] {
		if !slices.Contains(api.EventKinds(), kind) {
			return nil, wrong("kind %.40q: want %s", kind, strings.Join(api.EventKinds(), ", "))
		}
	}
	page := api.Events{Events: []api.Event{}}
	page.Unreadable, err = history.NewFeed(c.Cluster).Events(c.request.Context(), c.pool.Past, from, to, func(at time.Time, found []api.Event) error {
		if c.late() {
			page.Next = at
			return history.ErrStop
		}
		if kinds := c.query["kind"]; len(kinds) > 0 {
			found = slices.DeleteFunc(found, func(e api.Event) bool { return !slices.Contains(kinds, string(e.Kind)) })
		}
		// The events of one time stay on one page, so that a page can begin at that time.
		if len(page.Events) > 0 && len(page.Events)+len(found) > limit {
			page.Next = at
			return history.ErrStop
		}
		page.Events = append(page.Events, found...)
		return nil
	})
	return page, err
}
