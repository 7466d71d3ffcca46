package apps

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/known"
)

// newRowLoss returns a rowLoss over the given number of apps with a row, without a Machine. Up
// to 30 % of the rows, and always three, may be gone.
func newRowLoss(rows int) *rowLoss {
	cfg := steady()
	cfg.DisruptionFloor = new(3)
	c := &clock{}
	c.set(start())
	src := &source{isComplete: true, since: c.now, polled: true, rows: rows, before: rows, pass: 1}
	apps := newInventory(c, known.New(known.Config{}), src, &backlog{})
	for i := range rows {
		name := fmt.Sprint("app", i)
		a := apps.ensure(apps.known.App(name), name)
		a.row, a.want = rowPresent, api.App{Name: name, Instances: 1}
	}
	return &rowLoss{cfg: &cfg, clock: c, source: src, journal: &journal{clock: c}, apps: &apps}
}

// lack makes a complete pass that lacks the rows from first to last.
func (l *rowLoss) lack(first, last int) {
	gone := last - first + 1
	l.source.before, l.source.read = l.source.rows, l.source.rows-gone
	l.watchRows()
	for i := first; i <= last; i++ {
		a := l.apps.list[i]
		a.row, a.seen = rowVanished, l.clock.now
		l.source.rows--
	}
}

// restore makes a complete pass that has the rows from first to last again.
func (l *rowLoss) restore(first, last int) {
	for i := first; i <= last; i++ {
		a := l.apps.list[i]
		l.regain(a)
		a.row = rowPresent
		l.source.rows++
	}
	l.source.before, l.source.read = l.source.rows, l.source.rows
	l.watchRows()
}

func (l *rowLoss) check(t *testing.T, step string, want api.AppReason) {
	t.Helper()
	if h, held := l.holds(); held != (want != "") || held && h.why != want {
		t.Fatalf("%s: held %v (%s), want %q", step, held, h.why, want)
	}
}

func TestRowLossHoldsAboveItsShare(t *testing.T) {
	for _, tt := range []struct {
		rows, gone int
		want       api.AppReason
	}{
		{100, 0, ""},
		{100, 30, ""},
		{100, 31, api.WhyRowsGone},
		{5, 3, ""}, // the floor
		{5, 4, api.WhyRowsGone},
	} {
		t.Run(fmt.Sprintf("%d of %d", tt.gone, tt.rows), func(t *testing.T) {
			l := newRowLoss(tt.rows)
			l.lack(0, tt.gone-1)
			l.check(t, "gone", tt.want)
		})
	}
}

func TestRowLossEndsWhenEnoughIsBack(t *testing.T) {
	l := newRowLoss(100)
	l.lack(0, 49)
	l.lack(50, 54)
	l.check(t, "two passes", api.WhyRowsGone)
	if !l.rowGone(l.apps.list[0]) || l.rowGone(l.apps.list[60]) {
		t.Error("doubts the rows that are there, or not those gone")
	}
	l.clock.set(start().Add(time.Second))
	l.restore(0, 23)
	l.check(t, "31 are gone still", api.WhyRowsGone)
	l.restore(24, 24)
	l.check(t, "30 are", "")
	if l.ended == 0 {
		t.Error("the rest has no grace")
	}
	if !l.apps.backlog.pending() {
		t.Error("nothing is judged again")
	}
}

// TestRowLossIsConfirmed: a later pass that lacks no further row confirms the loss of at most
// half of the rows.
func TestRowLossIsConfirmed(t *testing.T) {
	for _, tt := range []struct {
		name   string
		passes [][2]int      // rows that each pass lacks in addition, from first to last
		want   api.AppReason // of the hold after these passes and one more
	}{
		{"half of the rows", [][2]int{{0, 49}}, ""},
		{"more than half", [][2]int{{0, 50}}, api.WhyRowsGone},
		{"more than half, one pass after the other", [][2]int{{0, 39}, {40, 59}}, api.WhyRowsGone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newRowLoss(100)
			for _, rows := range tt.passes {
				l.source.pass++
				l.lack(rows[0], rows[1])
				l.check(t, "gone", api.WhyRowsGone)
			}
			l.watchRows()
			l.check(t, "the same pass", api.WhyRowsGone)
			l.source.pass++
			l.source.before, l.source.read = l.source.rows, l.source.rows
			l.watchRows()
			l.check(t, "a later pass", tt.want)
			var s api.LimitStatus
			if l.report(&s); s.RowsNeedRelease != (tt.want != "") {
				t.Errorf("reported %+v", s)
			}
		})
	}
}

// TestRowLossSettles: for a source that sends each change, time confirms the loss.
func TestRowLossSettles(t *testing.T) {
	l := newRowLoss(100)
	l.source.polled = false
	l.lack(0, 39)
	l.clock.set(start().Add(l.cfg.DropletLost - time.Millisecond))
	l.settle()
	l.check(t, "before droplet_lost", api.WhyRowsGone)
	l.clock.set(start().Add(l.cfg.DropletLost))
	l.settle()
	l.check(t, "after droplet_lost", "")
}

func TestRowLossReleased(t *testing.T) {
	l := newRowLoss(100)
	l.release()
	l.lack(0, 49)
	l.release()
	l.check(t, "released", "")
	if n := len(l.journal.found); n != 2 || l.ended != 0 {
		t.Errorf("%d findings, grace since %d, want 2 and none", n, l.ended)
	}
}

// TestRowLossCountsCopiesOncePerTerm: a new leader has no earlier rows, so it counts the
// copies without a row.
func TestRowLossCountsCopiesOncePerTerm(t *testing.T) {
	l := newRowLoss(1)
	l.apps.total.Rowless = 40
	l.watchCopies(100)
	l.check(t, "not leading", "")
	l.copiesUncounted = true
	l.watchCopies(200)
	l.check(t, "few of very many", "")
	l.watchCopies(100)
	l.check(t, "counted before", "")
	l.copiesUncounted = true
	l.watchCopies(100)
	l.check(t, "too many", api.WhyWithoutRow)

	var s api.LimitStatus
	l.report(&s)
	if !s.On() || s.WithoutRow != 40 || s.WithoutRowOf != 100 || !s.RowsSince.Equal(start()) {
		t.Errorf("reported %+v", s)
	}
	a := l.apps.list[0]
	a.row, a.extra = rowUnknown, 10
	l.regain(a)
	l.watchRows()
	l.check(t, "ten are back", "")
}
