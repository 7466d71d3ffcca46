package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/plot"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
	"github.com/weirkeeper/weirkeeper/resource"
)

// ranges are the live windows of a pool.
var ranges = []struct {
	Name string
	Text string
	Span time.Duration
}{
	{"15m", "15 min", 15 * time.Minute}, {"1h", "1 h", time.Hour}, {"6h", "6 h", 6 * time.Hour}, {"24h", "24 h", 24 * time.Hour},
	{"7d", "7 d", 7 * 24 * time.Hour}, {"30d", "30 d", longest},
}

const (
	longest  = 30 * 24 * time.Hour // of a window
	allRange = "all"               // the range since the pool exists
	leastAll = time.Minute         // of that range
)

// spanOf returns the length of a range that is not allRange.
func spanOf(name string) (time.Duration, bool) {
	for _, r := range ranges {
		if r.Name == name {
			return r.Span, true
		}
	}
	return 0, false
}

// poolQuery is the state of a pool's page, as the URL has it.
type poolQuery struct {
	Range    string    // of a live window; empty: choose sets it
	From, To time.Time // of a fixed window; zero: live
	At       time.Time // of the cursor; zero: none
	Kind     resource.Kind
	Part     string // "plots" or "series"; empty: the whole page
}

// parsePool parses and bounds the query of a pool's page.
func parsePool(q url.Values) (p poolQuery, err error) {
	p.Part = q.Get("part")
	if p.Part != "" && p.Part != "plots" && p.Part != "series" {
		return p, fmt.Errorf("part %.20q: want plots or series", p.Part)
	}
	if text := q.Get("kind"); text != "" {
		if p.Kind, err = resource.ParseKind(text); err != nil {
			return p, err
		}
	}
	for name, at := range map[string]*time.Time{"from": &p.From, "to": &p.To, "at": &p.At} {
		if text := q.Get(name); text != "" {
			if *at, err = time.Parse(time.RFC3339, text); err != nil {
				return p, fmt.Errorf("%s %.40q: want a time such as 2026-01-02T03:10:00Z", name, text)
			}
			*at = at.UTC()
		}
	}
	if text := q.Get("range"); text != "" {
		if _, ok := spanOf(text); !ok && text != allRange {
			return p, fmt.Errorf("range %.20q: want 15m, 1h, 6h, 24h, 7d, 30d or all", text)
		}
		p.Range = text
	}
	if p.From.IsZero() != p.To.IsZero() {
		return p, fmt.Errorf("a fixed window needs both from and to")
	}
	if !p.From.IsZero() {
		if span := p.To.Sub(p.From); span < time.Second || span > longest+time.Hour {
			return p, fmt.Errorf("from %s to %s: want 1 s to %v", p.From.Format(time.RFC3339), p.To.Format(time.RFC3339), longest+time.Hour)
		}
	}
	return p, nil
}

// young reports whether the whole past of a pool is in a ring that reaches back so far.
func young(r *series.Ring, now time.Time, keep time.Duration) bool {
	return r.Len() > 0 && now.Sub(r.First()) < keep-time.Hour
}

// choose chooses the range of a query without one: since a young pool exists, or else 24 h.
func (p poolQuery) choose(r *series.Ring, now time.Time, keep time.Duration) poolQuery {
	if p.Range == "" && young(r, now, min(keep, 25*time.Hour)) {
		p.Range = allRange
	}
	p.Range = cmp.Or(p.Range, "24h")
	return p
}

// distant reports whether a window follows the present and is longer than the memory of the pages.
func (p poolQuery) distant(keep time.Duration) bool {
	span, ok := spanOf(p.Range)
	return p.live() && ok && span > keep
}

// live reports whether the window follows the present.
func (p poolQuery) live() bool { return p.From.IsZero() }

// window returns the time that the plots show. A live window ends with the last tick, or now without a tick.
func (p poolQuery) window(r *series.Ring, now time.Time) series.Window {
	if !p.live() {
		return series.NewWindow(p.From, p.To, r.Every())
	}
	every := max(r.Every(), time.Second)
	to := r.Last().Add(every)
	if now.Sub(to) > 3*every {
		to = now.Truncate(time.Minute).Add(time.Minute)
	}
	span, ok := spanOf(p.Range)
	if !ok {
		span = max(to.Sub(r.First()), leastAll)
	}
	return series.NewWindow(to.Add(-span), to, every)
}

// values returns the query of the page with this state.
func (p poolQuery) values() url.Values {
	v := url.Values{}
	if p.live() {
		v.Set("range", p.Range)
	} else {
		v.Set("from", p.From.Format(time.RFC3339))
		v.Set("to", p.To.Format(time.RFC3339))
	}
	if p.Kind != 0 {
		v.Set("kind", p.Kind.String())
	}
	if !p.At.IsZero() {
		v.Set("at", p.At.Format(stamp))
	}
	return v
}

// link is a choice of a page.
type link struct {
	Text, Href string
	Current    bool
}

// changeRow is a row of the table "Changes of the target".
type changeRow struct {
	At                                   time.Time
	Form                                 string // of the time
	Time, Href, Before, After, Rule, Why string
}

// poolView is the page of one pool.
type poolView struct {
	frame
	Name     string
	Href     string
	Past     bool   // it shows a time of the past, and nothing of now
	Moment   string // that time, with date and zone
	MomentAt time.Time
	Tabs     []link
	Safe     bool   // to deploy, with Deploy
	Deploy   string // the deploy light; empty: the page is of the past
	Orders   []orderForm
	Sentence string // need, target, joined and the next step
	States   []series.State
	// StateLinks are the pages of their nodes and apps, in order; empty: no page.
	StateLinks []string
	Figures    []figure
	Ranges     []link
	Kinds      []link
	Sections   []section
	Overlay    []byte
	Cursor     []byte
	Ruler      []byte
	At         string // time of the cursor, or of the last tick
	AtHref     string // decision at the cursor
	From, To   int64  // ms, for the script
	Columns    int
	Empty      string // why there is no plot
	Changes    []changeRow
	More       int // changes that the table omits
	Series     string
	Query      string // of this page, for the script
}

// section is a group of plots.
type section struct {
	ID, Title string
	Lanes     []lane
}

// lane is one plot with its name and value.
type lane struct {
	Name, Sub string
	Href      string // page of its app or nodes
	Swatch    string // class
	Plot      []byte
	Labels    []byte       // direct labels; nil: Value stands there
	Legend    []plot.Layer // for narrow screens
	Value     string
	Key       string // by which the script finds the value
	Text      string // a sentence in place of a plot
}

// awayHeader is set in responses while the source is away. The script shows it above plots that it has fetched.
const awayHeader = "Weir-Away"

// servePool serves the page of a pool, or a part of it.
func (s *Server) servePool(w http.ResponseWriter, r *http.Request) {
	name := Name{r.PathValue("cluster"), r.PathValue("pool")}
	q, err := parsePool(r.URL.Query())
	if err != nil {
		s.problem(w, r, http.StatusBadRequest, "This address is not valid", err.Error())
		return
	}
	if away, _ := s.store.awayNow(); away != "" {
		w.Header().Set(awayHeader, "1")
	}
	old, err := s.readPast(r.Context(), name, q)
	if err != nil {
		s.log.Warn("the source of the pages is away", "err", err)
		s.problem(w, r, http.StatusServiceUnavailable, "The ledger does not answer", "This time cannot be read now: "+decide.OneLine(err.Error())+". Try again later, or choose a shorter time.")
		return
	}
	if q.Part == "series" {
		s.serveSeries(w, r, name, q, old)
		return
	}
	var v poolView
	make := func() ([]byte, error) {
		page := s.frame(name.Pool, []crumb{{name.Pool, ""}})
		if q.live() && q.At.IsZero() {
			page.Events = s.hub.address(name.String())
		}
		if !s.store.read(name, func(ring *series.Ring, k known) { v = s.pool(page, name, q, ring, cmp.Or(old, ring), k) }) {
			return nil, errNoPool
		}
		if q.Part == "plots" {
			return render(r.Context(), poolMain(v))
		}
		return render(r.Context(), poolPage(v))
	}
	if q.Part == "plots" && q.live() && q.At.IsZero() && acceptsGzip(r) {
		s.servePart(w, r, name, q, make)
		return
	}
	body, err := make()
	if err != nil {
		s.noPool(w, r, name, err)
		return
	}
	s.respond(w, r, http.StatusOK, "text/html; charset=utf-8", body)
}

// Bounds of the reads of older windows.
const (
	pastReads = 2                // at the same time
	pastLimit = 10 * time.Second // of one
)

// readPast reads the ticks of a fixed window that begins before those in memory. It returns nil for other windows.
func (s *Server) readPast(ctx context.Context, name Name, q poolQuery) (*series.Ring, error) {
	if q.distant(s.store.keep) {
		span, _ := spanOf(q.Range)
		return s.distant(ctx, name, span)
	}
	if q.live() {
		return nil, nil
	}
	inMemory := false
	if !s.store.read(name, func(r *series.Ring, _ known) { inMemory = r.Len() > 0 && !q.From.Before(r.First()) }) || inMemory {
		return nil, nil
	}
	return s.readWindow(ctx, name, q.From, q.To)
}

// distant returns the ticks of a span that ends now: those that a request has read in the last minute, or else it reads them.
func (s *Server) distant(ctx context.Context, name Name, span time.Duration) (*series.Ring, error) {
	to := s.now().Truncate(time.Minute).Add(time.Minute)
	return s.windows.get(fmt.Sprint(name, span), to, func() (*series.Ring, error) { return s.readWindow(ctx, name, to.Add(-span), to) })
}

// maxPoints is the number of ticks of a window of the past beyond which ticks without a change are thinned.
const maxPoints = 4 * series.MaxColumns

// readWindow reads the ticks of a window.
func (s *Server) readWindow(ctx context.Context, name Name, from, to time.Time) (*series.Ring, error) {
	ctx, cancel := context.WithTimeout(ctx, pastLimit)
	defer cancel()
	select {
	case s.pastReads <- struct{}{}:
		defer func() { <-s.pastReads }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ring := series.NewRing(1)
	over := errors.New("the window is over")
	apart := time.Duration(0) // of two ticks, if neither changes anything
	err := s.source.Since(ctx, name, from, func(tick api.Summary) error {
		switch {
		case tick.At.After(to):
			return over
		case tick.DryRun, !tick.Acted() && tick.At.Sub(ring.Last()) < apart && ring.Len() > 0:
			return ctx.Err()
		case ring.Len() == 0:
			if apart = to.Sub(from) / maxPoints; apart <= 2*tick.Every {
				apart = 0
			}
			tick.Every = max(tick.Every, apart)
			ring = newRing(tick, to.Sub(from))
		}
		tick.Every = max(tick.Every, apart)
		ring.Add(series.Reduce(tick, condition.Facts{}))
		return ctx.Err()
	})
	if errors.Is(err, over) {
		err = nil
	}
	return ring, err
}

// servePart serves the plots of a live page from the cache: the key has the last tick.
func (s *Server) servePart(w http.ResponseWriter, r *http.Request, name Name, q poolQuery, make func() ([]byte, error)) {
	away, _ := s.store.awayNow()
	key := fmt.Sprint(name, q.values().Encode(), s.store.last(name).UnixMilli(), s.now().Unix()/10, away)
	body, err := s.cache.get(key, func() ([]byte, error) {
		body, err := make()
		if err != nil {
			return nil, err
		}
		return pack(body)
	})
	if err != nil {
		s.noPool(w, r, name, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Vary", "Accept-Encoding")
	s.packed(w, http.StatusOK, body)
}

// errNoPool: no pool has this name.
var errNoPool = errors.New("this pool does not exist")

func (s *Server) noPool(w http.ResponseWriter, r *http.Request, name Name, err error) {
	if !errors.Is(err, errNoPool) {
		s.log.Error("cannot render a page", "pool", name.String(), "err", err)
		http.Error(w, "this page cannot be rendered; the log of the server has the cause", http.StatusInternalServerError)
		return
	}
	s.problem(w, r, http.StatusNotFound, "This pool does not exist",
		fmt.Sprintf("The cluster has no pool %s. Open the fleet, and choose a pool.", series.Cut(name.String(), 64)))
}

// pool returns the view of a pool on a page. r has the last ticks of the pool, and shown those of the window.
func (s *Server) pool(page frame, name Name, q poolQuery, r, shown *series.Ring, k known) poolView {
	now := s.now()
	q = q.choose(r, now, s.store.keep)
	w := q.window(shown, now)
	at := r.Last()
	if !q.At.IsZero() {
		at = q.At
	} else if !q.live() && w.To.Before(at) {
		at = w.To
	}
	v := poolView{
		frame: page, Name: name.Pool, Href: name.href(),
		From: w.From.UnixMilli(), To: w.To.UnixMilli(), Columns: w.Columns, At: at.UTC().Format(time.TimeOnly), AtHref: name.tickHref(at),
		Query: "?" + q.values().Encode(),
	}
	v.MomentAt = at
	if v.Past = !q.live() || !q.At.IsZero(); v.Past {
		v.Moment, v.States = longStamp(at), series.StatesAt(shown, at)
	} else {
		v.States = series.States(now, r, k.last, k.Facts)
		v.Sentence = condition.Sentence(now, k.last, k.Facts)
		v.Safe, v.Deploy = condition.Deploy(now, k.last, k.Facts)
		v.orders(name, k.last)
	}
	for _, one := range v.States {
		v.StateLinks = append(v.StateLinks, name.stateHref(one))
	}
	v.Tabs = tabs(name, name.href())
	columns := q.values()
	columns.Set("part", "series")
	v.Series = name.href() + "?" + columns.Encode()
	if !v.Past {
		v.Live = "live"
		if r.Len() > 0 {
			v.Live = "live, tick " + ago(now, r.Last())
			if v.Old = v.States[0].Rank == condition.NoTick && now.Sub(r.Last()) > r.Every(); v.Old {
				v.Live = "last tick " + ago(now, r.Last())
			}
		}
	}
	d := drawer{name: name, ring: shown, w: w, at: at, cursor: !q.At.IsZero(), kind: q.Kind}
	v.Figures = d.figures()
	if k.last != nil && k.last.Cost != nil && !v.Past {
		v.Figures = append(v.Figures, costFigure(*k.last.Cost))
	}
	v.links(name, q, d, young(r, now, s.store.keep))
	if shown.Len() == 0 || shown.First().After(w.To) || shown.Last().Before(w.From) {
		v.Empty = "No tick is recorded in this time."
	} else {
		v.Sections = d.sections()
	}
	live := q.live()
	axis := marks(w, live)
	v.Ruler = plot.Ruler(axis)
	v.Overlay, v.Cursor = d.overlay(axis), d.line()
	v.changes(name, shown, w)
	return v
}

// costFigure returns the cost of an hour, and what it lacks. If it is unknown in part, the figure is a lower bound.
func costFigure(c api.Cost) figure {
	f := figure{"cost", "cost per hour", explain.Money(c.PerHour), c.Currency}
	unpriced := c.Unpriced()
	lacks := "no price of " + condition.Count(len(unpriced), "market")
	switch {
	case c.Failed != "":
		f.Value, f.Rest = "–", "the price file cannot be read"
	case len(unpriced) > 0 && c.PerHour == 0:
		f.Value, f.Rest = "–", lacks
	case len(unpriced) > 0:
		f.Value, f.Rest = "≥ "+f.Value, f.Rest+", "+lacks
	}
	return f
}

// orders adds the forms of the orders that apply now.
func (v *poolView) orders(name Name, last *api.Summary) {
	if last != nil && last.Paused != nil {
		v.Orders = append(v.Orders, orderForm{Path: name.apiPath() + "/resume", Title: "Resume"})
	} else {
		v.Orders = append(v.Orders, orderForm{Path: name.apiPath() + "/pause", Title: "Pause", Timed: true})
	}
	v.Orders = append(v.Orders, orderForm{Path: name.apiPath() + "/offset", Title: "Offset", Amount: "weight", Timed: true})
}

// stateHref returns the page of the node or app that a state is about; empty: it is about the pool.
func (n Name) stateHref(s series.State) string {
	kind, object, _ := strings.Cut(s.Key, "/")
	switch kind {
	case "missing", "crashes", "update", "signal":
		return n.appHref(object)
	case "node":
		return n.nodeHref(object)
	}
	return ""
}

// longStamp returns a time with its date and zone, for headlines.
func longStamp(at time.Time) string { return at.UTC().Format("Mon 2 Jan 2006, 15:04:05") + " UTC" }

// ago returns "39 s ago".
func ago(now, at time.Time) string { return condition.Duration(now.Sub(at)) + " ago" }

// links sets the links to other windows and kinds of resources.
func (v *poolView) links(name Name, q poolQuery, d drawer, young bool) {
	if young {
		to := poolQuery{Range: allRange, Kind: q.Kind}
		v.Ranges = append(v.Ranges, link{"since the pool exists", name.href() + "?" + to.values().Encode(), q.live() && q.Range == allRange})
	}
	for _, r := range ranges {
		to := poolQuery{Range: r.Name, Kind: q.Kind}
		v.Ranges = append(v.Ranges, link{r.Text, name.href() + "?" + to.values().Encode(), q.live() && q.Range == r.Name})
	}
	if !q.live() {
		span := q.To.Sub(q.From)
		for _, one := range []struct {
			text     string
			from, to time.Time
		}{{"← earlier", q.From.Add(-span / 2), q.To.Add(-span / 2)}, {"later →", q.From.Add(span / 2), q.To.Add(span / 2)}} {
			to := poolQuery{From: one.from, To: one.to, Kind: q.Kind}
			v.Ranges = append(v.Ranges, link{one.text, name.href() + "?" + to.values().Encode(), false})
		}
	}
	for _, k := range d.kinds() {
		to := q
		to.Kind = k
		v.Kinds = append(v.Kinds, link{k.String(), name.href() + "?" + to.values().Encode(), k == d.kind})
	}
	if len(v.Kinds) < 2 {
		v.Kinds = nil
	}
}

// maxChangeRows is the length of the table of changes.
const maxChangeRows = 40

// changes sets the table of changes, newest first.
func (v *poolView) changes(name Name, r *series.Ring, w series.Window) {
	layout, form := "15:04", "minute"
	switch span := w.To.Sub(w.From); {
	case span <= time.Hour:
		layout, form = time.TimeOnly, "clock"
	case span > 25*time.Hour:
		layout, form = "2 Jan 15:04", "day"
	}
	list := r.Changes(w.From, w.To)
	for _, c := range list[:min(len(list), maxChangeRows)] {
		v.Changes = append(v.Changes, changeRow{
			c.At, form, c.At.UTC().Format(layout), name.tickHref(c.At), plot.Number(c.Before), plot.Number(c.After), c.Rule, c.Why,
		})
	}
	v.More = len(list) - len(v.Changes)
}

// serveSeries serves the columns of the window for the cursor.
func (s *Server) serveSeries(w http.ResponseWriter, r *http.Request, name Name, q poolQuery, old *series.Ring) {
	out := struct {
		From   int64                `json:"from"`
		To     int64                `json:"to"`
		Times  []int64              `json:"times"` // ms; 0: no tick in the column
		Values map[string][]*number `json:"values"`
	}{Values: map[string][]*number{}}
	found := s.store.read(name, func(ring *series.Ring, _ known) {
		q, ring := q.choose(ring, s.now(), s.store.keep), cmp.Or(old, ring)
		window := q.window(ring, s.now())
		out.From, out.To, out.Times = window.From.UnixMilli(), window.To.UnixMilli(), ring.Times(window)
		d := drawer{ring: ring, w: window, kind: q.Kind}
		d.kinds()
		for quantity := range keyNames {
			for _, key := range ring.Keys(quantity) {
				if (quantity == series.Request || quantity == series.Offered) && key.Kind != d.kind {
					continue
				}
				column := make([]*number, window.Columns)
				for i, b := range ring.Bins(key, window) {
					if b.OK {
						column[i] = new(number(b.Last))
					}
				}
				out.Values[keyName(key)] = column
			}
		}
	})
	if !found {
		http.Error(w, errNoPool.Error(), http.StatusNotFound)
		return
	}
	body, err := json.Marshal(out)
	if err != nil {
		s.log.Error("cannot encode columns", "pool", name.String(), "err", err)
		http.Error(w, "these columns cannot be encoded", http.StatusInternalServerError)
		return
	}
	s.respond(w, r, http.StatusOK, "application/json", body)
}

// number is a value with at most 3 digits after the point.
type number float32

// MarshalJSON returns the value without what float32 adds.
func (n number) MarshalJSON() ([]byte, error) {
	return json.Marshal(math.Round(float64(n)*1000) / 1000)
}
