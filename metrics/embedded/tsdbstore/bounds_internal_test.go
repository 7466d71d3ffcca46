package tsdbstore

import (
	"errors"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// Series without a sample for 10 minutes give way to new ones; those with samples do not.
func TestIdleSeriesGiveWay(t *testing.T) {
	a := active{all: 10, ofApp: 4, of: map[string]map[uint64]time.Time{}, sweep: map[string]time.Time{}}
	now := time.Unix(1000, 0)
	touch := func(app string, series uint64, ok bool) {
		t.Helper()
		if err := a.touch(now, app, series); (err == nil) != ok || err != nil && !errors.Is(err, metrics.ErrTooManySeries) {
			t.Errorf("series %d of %s: %v, want accepted: %v", series, app, err, ok)
		}
	}
	for i := range uint64(4) {
		touch("web", i, true)
	}
	touch("web", 4, false)
	now = now.Add(9 * time.Minute)
	touch("web", 0, true)
	touch("web", 4, false)
	now = now.Add(time.Minute)
	touch("web", 4, true) // in place of 1, 2 and 3
	touch("web", 5, true)
	touch("web", 6, true)
	touch("web", 7, false)
	for i := range uint64(4) {
		touch("db", i, true)
	}
	touch("mail", 0, true)
	touch("mail", 1, true)
	touch("mail", 2, false) // all applications have 10
	now = now.Add(10 * time.Minute)
	touch("mail", 2, true)
	if a.sum != 1 || len(a.of) != 1 {
		t.Errorf("%d series of %d applications are active, want one", a.sum, len(a.of))
	}
}
