package web_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/ui/web"
)

var years = regexp.MustCompile(` 20\d\d</text>`)

// A report of any length has a few times on its axis, and the year if it is long.
func TestAxisOfReports(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	for _, span := range []time.Duration{time.Minute, time.Hour, day, 7 * day, 10 * day, 30 * day, 90 * day, 400 * day, 3660 * day} {
		text, err := web.Report{From: from, To: from.Add(span), Columns: 60, Plots: []web.ReportPlots{{Title: "Machines"}}}.HTML(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), `<text class="axis`); n < 3 || n > 10 {
			t.Errorf("a report of %v has %d times", span, n)
		}
		if year := years.Match(text); year != (span > 300*day) {
			t.Errorf("a report of %v shows years: %t", span, year)
		}
	}
}
