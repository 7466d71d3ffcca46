package calendar

import (
	"testing"
	"time"
)

// FuzzDecode decodes any text: a calendar, or problems with a text. A problem of a key has a line.
func FuzzDecode(f *testing.F) {
	f.Add("time_zone: UTC\nperiods: [{name: a, days: mon-fri, from: 08:00, to: 18:00, plus: {cpus: 1}}]\n")
	f.Add("time_zone: UTC\ndates: {h: [2026-12-24], h: []}\nperiods: [{name: 010, on: [h], from: ~, for: 1h}, 3]\n---\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, problems := decode([]byte(text))
		for _, p := range problems {
			if p.What == "" || p.Key != "" && p.Line == 0 {
				t.Errorf("the problem %+v has no text or no line", *p)
			}
		}
		if len(problems) > 0 && len(c.Coming(time.Unix(0, 0), time.Unix(1<<31, 0))) > 0 {
			t.Error("a calendar with problems has periods")
		}
	})
}
