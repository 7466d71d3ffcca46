package builtin_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/signals/builtin"
)

func TestCalendar(t *testing.T) {
	parameters := signals.Parameters{
		"time_zone": "Europe/Berlin", "dates": map[string]any{"holidays": []any{"2026-12-24..2026-12-26"}},
		"periods": []any{
			map[string]any{"name": "office hours", "days": "mon-fri", "from": "08:00", "to": "18:00", "lead": "10m",
				"at_least": map[string]any{"cpus": 40.0}, "except": []any{"holidays"}},
			map[string]any{"name": "sale", "on": []any{"2026-11-27"}, "from": "00:00", "for": "26h", "plus": map[string]any{"cpus": 20.0}},
			map[string]any{"name": "payday", "days": "last working day", "from": "06:00", "to": "07:00", "times": 1.5},
		},
	}
	tests := map[string]struct {
		at      string // in Berlin
		metrics windows
		want    resource.Request
		why     string // the explanation; with "no opinion", the error
	}{
		"outside":              {"2026-11-30 05:00", nil, resource.Request{}, "next is payday, Mon 30 Nov 06:00 (Europe/Berlin): no opinion"},
		"outside, on holidays": {"2026-12-24 09:00", nil, resource.Request{}, "next is office hours, Mon 28 Dec 07:50 (Europe/Berlin): no opinion"},
		"lead":                 {"2026-11-26 07:53", nil, cpus(40), "cpus 40: office hours begins in 7m (lead 10m)"},
		"active":               {"2026-11-26 17:59", nil, cpus(40), "cpus 40: office hours until Thu 26 Nov 18:00 (Europe/Berlin)"},
		"overlap": {"2026-11-27 12:00", nil, cpus(60),
			"cpus 60: at least cpus 40 (office hours until Fri 27 Nov 18:00 (Europe/Berlin)), plus cpus 20 (sale until Sat 28 Nov 02:00 (Europe/Berlin))"},
		"plus the highest": {"2026-11-27 19:00", windows{"cpus_expected|app=web": window(50, 30)}, cpus(70), "cpus 70: sale until Sat 28 Nov 02:00 (Europe/Berlin)"},
		"times the highest": {"2026-11-30 06:30", windows{"cpus_allocated": window(10, 30, 20), "mem_allocated": window()}, cpus(45),
			"cpus 45: payday until Mon 30 Nov 07:00 (Europe/Berlin)"},
		"times nothing": {"2026-11-30 06:30", nil, resource.Request{}, "payday until Mon 30 Nov 07:00 (Europe/Berlin), and no window has what it multiplies: no opinion"},
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			now, err := time.ParseInLocation("2006-01-02 15:04", tt.at, berlin)
			if err != nil {
				t.Fatal(err)
			}
			ctx, explanation := signals.WithExplanation(t.Context())
			got, err := builtin.Calendar{}.Value(ctx, signals.Input{Now: now.UTC(), Parameters: parameters, Metrics: tt.metrics})
			why := explanation()
			if err != nil {
				why = err.Error()
			}
			if got != tt.want || why != tt.why || errors.Is(err, signals.ErrNoOpinion) != got.IsEmpty() {
				t.Errorf("Value = %v, %v, %q; want %v, %q", got, err, why, tt.want, tt.why)
			}
		})
	}
	_, err = builtin.Calendar{}.Value(t.Context(), signals.Input{Parameters: signals.Parameters{"time_zone": "Local"}})
	if err == nil || !strings.Contains(err.Error(), "parameter time_zone: ") || !strings.Contains(err.Error(), "parameter periods: ") {
		t.Errorf("Value of wrong parameters = %v, want both mistakes", err)
	}
}

func cpus(x float64) resource.Request { return resource.Request{}.With(resource.CPUs, x) }
