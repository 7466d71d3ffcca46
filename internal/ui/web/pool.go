package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/plot"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
)

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
			return render(r.Context(), poolParts(v))
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

// pastSlot waits until one more read of the past may begin. The caller calls done after the read.
func (s *Server) pastSlot(ctx context.Context) (done func(), err error) {
	select {
	case s.pastReads <- struct{}{}:
		return func() { <-s.pastReads }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// readWindow reads the ticks of a window.
func (s *Server) readWindow(ctx context.Context, name Name, from, to time.Time) (*series.Ring, error) {
	ctx, cancel := context.WithTimeout(ctx, pastLimit)
	defer cancel()
	done, err := s.pastSlot(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	ring := series.NewRing(1)
	over := errors.New("the window is over")
	apart := time.Duration(0) // of two ticks, if neither changes anything
	err = s.source.Since(ctx, name, from, func(tick api.Summary) error {
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
	if away, _ := s.store.awayNow(); away != "" {
		s.problem(w, r, http.StatusServiceUnavailable, "This pool is not known now", "The source of the pages does not answer, or the ticks of this pool are not read yet. Load the page again later.")
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
	v.MomentAt, v.AtTick = at, !q.At.IsZero()
	if v.Past = !q.live() || !q.At.IsZero(); v.Past {
		v.Moment, v.States = longStamp(at), series.StatesAt(shown, at)
	} else {
		v.States = series.States(now, r, k.last, k.Facts)
		v.Sentence, v.Old = condition.Sentence(now, k.last, k.Facts), condition.Old(now, k.last)
		if k.last != nil && k.last.Rotation != nil && !v.Old {
			v.Rotation = "Rotation: " + k.last.Rotation.Progress() + "."
		}
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
			if v.Old {
				v.Live = "last tick " + ago(now, r.Last())
			}
		}
	}
	d := drawer{name: name, ring: shown, w: w, at: at, cursor: !q.At.IsZero(), old: v.Old, kind: q.Kind}
	v.Figures = d.figures()
	if k.last != nil && k.last.Cost != nil && !v.Past {
		cost := costFigure(*k.last.Cost)
		if v.Old {
			cost.Value, cost.Rest = "–", "was "+cost.Value+" "+cost.Rest
		}
		v.Figures = append(v.Figures, cost)
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
	v.Overlay, v.Cursor = d.overlay(axis)
	v.changes(name, shown, w)
	return v
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
