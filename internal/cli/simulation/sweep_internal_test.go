package simulation

import (
	"slices"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
)

func TestSweeps(t *testing.T) {
	t.Parallel()
	tests := []struct {
		sweeps []string
		want   string // the values, or a part of the error
	}{
		{nil, ""},
		{[]string{"a=1,2"}, "a=1 a=2"},
		{[]string{"a=0.5..0.9:0.1"}, "a=0.5 a=0.6 a=0.7 a=0.8 a=0.9"},
		{[]string{"a=0.5..0.74:0.1,3"}, "a=0.5 a=0.6 a=0.7 a=3"},
		{[]string{"a=0m..30m:10m"}, "a=0s a=10m a=20m a=30m"},
		{[]string{"a=1..1:5"}, "a=1"},
		{[]string{"a=[x,y],[],{b: 1, c: [2..3]}"}, "a=[x,y] a=[] a={b: 1, c: [2..3]}"},
		{[]string{"a=1,2", "b=x,y"}, "a=1+b=x a=1+b=y a=2+b=x a=2+b=y"},
		{[]string{"a"}, "want KEY=VALUE"},
		{[]string{"a="}, "want KEY=VALUE"},
		{[]string{"a=1..2"}, "want FROM..TO:STEP"},
		{[]string{"a=2..1:1"}, "want FROM at most TO"},
		{[]string{"a=1..2:0"}, "want FROM at most TO"},
		{[]string{"a=1..2:-1"}, "want FROM at most TO"},
		{[]string{"a=1..2000:1"}, "1 to 1000 values"},
		{[]string{"a=NaN..2:1"}, "want FROM at most TO"},
		{[]string{"a=x..2:1"}, "neither a number nor a duration"},
		{[]string{"a=1..100:1", "b=1..100:1"}, "10000 policies"},
	}
	for _, test := range tests {
		got, err := combinations(test.sweeps)
		var all []string
		for _, one := range got {
			var names []string
			for _, v := range one {
				names = append(names, v.Key+"="+v.Value)
			}
			all = append(all, strings.Join(names, "+"))
		}
		if text := strings.TrimSpace(strings.Join(all, " ")); err == nil && text != test.want {
			t.Errorf("combinations(%q) = %q, want %q", test.sweeps, text, test.want)
		}
		if err != nil && (test.want == "" || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("combinations(%q): %v, want %q", test.sweeps, err, test.want)
		}
	}
}

// A policy within its bounds is before all others, however cheap they are. The upper end of the interval counts.
func TestObjectiveRanksWithinBounds(t *testing.T) {
	t.Parallel()
	row := func(name string, cost, unmet, half, wait float64) api.Simulated {
		return api.Simulated{Policy: name, Cost: &api.Estimate{Mean: cost}, Unmet: api.Estimate{Mean: unmet, Half: half}, Wanted: 100, Waited: wait}
	}
	rows := []api.Simulated{row("cheap", 1, 9, 0, 60), row("wide", 2, 2, 1, 60), row("good", 4, 2, 0, 60), row("better", 3, 2, 0, 60), row("slow", 2, 1, 0, 1200)}
	tests := []struct {
		objective, want, missed string
	}{
		{"cost", "cheap wide slow better good", ""},
		{"cost, unmet<=2.5%, wait<=10m", "better good wide slow cheap", ""},
		{"unmet,cost<=3", "slow better wide cheap good", ""},
		{"cost,unmet<=0.5", "slow better good wide cheap", "the nearest is slow, which misses unmet<=0.5: it is 1.00"},
	}
	for _, test := range tests {
		o, err := parseObjective(test.objective)
		if err != nil {
			t.Fatal(err)
		}
		ranked := slices.Clone(rows)
		err = o.rank(ranked)
		var names []string
		for i, r := range ranked {
			names = append(names, r.Policy)
			if r.Rank != i+1 {
				t.Errorf("%s: %s has rank %d, want %d", test.objective, r.Policy, r.Rank, i+1)
			}
		}
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("%s: ranks are %s, want %s", test.objective, got, test.want)
		}
		if (err != nil) != (test.missed != "") || err != nil && !strings.Contains(err.Error(), test.missed) {
			t.Errorf("%s: %v, want %q", test.objective, err, test.missed)
		}
	}
}

func TestWrongObjectives(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":              `quantity "" is unknown`,
		"cots":          "did you mean cost?",
		"cost,unmet<2":  "want QUANTITY<=VALUE",
		"cost,unmet<=x": "want a number of at least 0",
		"cost,wait<=3":  "missing unit",
		"cost,cost<=5%": "want a number of at least 0",
		"cost,,":        "want QUANTITY<=VALUE",
	} {
		if _, err := parseObjective(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parseObjective(%q): %v, want %q", text, err, want)
		}
	}
}
