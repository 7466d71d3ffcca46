package web

import (
	"cmp"
	"fmt"
	"net/url"
	"time"

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
