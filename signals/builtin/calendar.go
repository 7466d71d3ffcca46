package builtin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/signals/calendar"
)

// Calendar requests more in the periods of a calendar, for each kind that its active periods name:
//
//	request = max(at_least, max(times, 1) * max(windows of {kind}_expected and {kind}_allocated)) + plus
//
// Its parameters are those of package calendar. Without "times" and "plus" it needs no window. Outside of all periods it has
// no opinion. It is stateless: the answer depends on the time of the request only.
type Calendar struct{}

// Value implements [signals.Signal].
func (Calendar) Value(ctx context.Context, in signals.Input) (resource.Request, error) {
	c, problems := calendar.Decode(in.Parameters, time.LoadLocation)
	if len(problems) > 0 {
		var errs []error
		for _, p := range problems {
			errs = append(errs, fmt.Errorf("parameter %s: %s", p.Path, p.What))
		}
		return resource.Request{}, errors.Join(errs...)
	}
	level := c.At(in.Now)
	if level.Of == nil {
		return resource.Request{}, fmt.Errorf("%s: %w", next(c, in.Now), signals.ErrNoOpinion)
	}
	request := calendarRequest(in, level.Raise)
	why := activePeriods(in.Now, level.Of)
	if request.IsEmpty() {
		return request, fmt.Errorf("%s, and no window has what it multiplies: %w", why, signals.ErrNoOpinion)
	}
	signals.Explain(ctx, "%s: %s", strings.ReplaceAll(request.String(), "=", " "), why)
	return request, nil
}

// calendarRequest returns the request of a raise.
func calendarRequest(in signals.Input, r calendar.Raise) (request resource.Request) {
	for _, k := range resource.Kinds() {
		base, measured := highest(in, k)
		least, bounded := r.AtLeast.Get(k)
		plus, added := r.Plus.Get(k)
		if bounded || added || measured && r.Times > 0 {
			request = request.With(k, max(least, max(r.Times, 1)*base)+plus)
		}
	}
	return request
}

// highest returns the highest measured need of a kind.
func highest(in signals.Input, k resource.Kind) (most float64, measured bool) {
	for key, series := range in.Metrics {
		name, _, _ := strings.Cut(key, "|")
		if x, ok := series.Max(); ok && (name == k.String()+"_expected" || name == k.String()+"_allocated") {
			most, measured = max(most, x), true
		}
	}
	return most, measured
}

// activePeriods describes the active periods. Of several, each has its raise.
func activePeriods(now time.Time, active []calendar.Occurrence) string {
	var parts []string
	for _, o := range active {
		text := fmt.Sprintf("%s until %s", o.Period, shown(o.End))
		if now.Before(o.Begin) {
			text = fmt.Sprintf("%s begins in %s (lead %s)", o.Period, short(o.Begin.Sub(now)), short(o.Lead))
		}
		if len(active) > 1 {
			text = o.Raise.String() + " (" + text + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// next describes the next period.
func next(c calendar.Calendar, now time.Time) string {
	const near, far = 8, 400 // days; most calendars have a period within a week
	for _, days := range []int{near, far} {
		if coming := c.Coming(now, now.AddDate(0, 0, days)); len(coming) > 0 {
			return fmt.Sprintf("next is %s, %s", coming[0].Period, shown(coming[0].Start().In(coming[0].Begin.Location())))
		}
	}
	return fmt.Sprintf("no period begins within %d days", far)
}

// shown returns "Mon 30 Nov 07:50 (Europe/Berlin)".
func shown(t time.Time) string {
	return fmt.Sprintf("%s (%s)", t.Format("Mon 2 Jan 15:04"), t.Location())
}

// short returns a duration without zeros at its end, such as 7m.
func short(d time.Duration) string {
	text := d.Round(time.Second).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}
