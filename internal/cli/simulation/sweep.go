package simulation

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
)

// combinations returns each combination of the values of sweeps: KEY=VALUE,VALUE,... or KEY=FROM..TO:STEP.
func combinations(sweeps []string) ([][]config.Assignment, error) {
	all := [][]config.Assignment{nil}
	for _, text := range sweeps {
		key, list, found := strings.Cut(text, "=")
		if !found || list == "" {
			return nil, fmt.Errorf("--sweep %.80q: want KEY=VALUE,VALUE,... or KEY=FROM..TO:STEP", text)
		}
		values, err := valuesOf(list)
		if err != nil {
			return nil, fmt.Errorf("--sweep %s: %w", key, err)
		}
		if len(values)*len(all) > maxRuns {
			return nil, fmt.Errorf("--sweep %s: it makes %d policies: want at most %d", key, len(values)*len(all), maxRuns)
		}
		var next [][]config.Assignment
		for _, before := range all {
			for _, value := range values {
				next = append(next, append(before[:len(before):len(before)], config.Assignment{Key: key, Value: value}))
			}
		}
		all = next
	}
	return all, nil
}

// valuesOf returns the values of a list, with each range in it.
func valuesOf(list string) (out []string, err error) {
	for _, item := range items(list) {
		from, rest, ranged := strings.Cut(item, "..")
		if !ranged || strings.ContainsAny(item, "[{") {
			out = append(out, item)
			continue
		}
		to, step, stepped := strings.Cut(rest, ":")
		if !stepped {
			return nil, fmt.Errorf("range %.80q: want FROM..TO:STEP, such as 0.5..0.9:0.05 or 0m..30m:5m", item)
		}
		more, err := span(from, to, step)
		if err != nil {
			return nil, fmt.Errorf("range %.80q: %w", item, err)
		}
		out = append(out, more...)
	}
	return out, nil
}

// items splits a list at its commas outside of brackets.
func items(list string) []string {
	depth := 0
	return strings.FieldsFunc(list, func(r rune) bool {
		switch r {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		return r == ',' && depth == 0
	})
}

// span returns the values of a range of numbers, or of durations. The last one is at most to.
func span(from, to, step string) (out []string, err error) {
	var ends [3]float64
	times := false
	for i, text := range []string{from, to, step} {
		if ends[i], err = strconv.ParseFloat(text, 64); err == nil {
			continue
		}
		d, wrong := time.ParseDuration(text)
		if wrong != nil {
			return nil, fmt.Errorf("%.40q is neither a number nor a duration", text)
		}
		ends[i], times = d.Seconds(), true
	}
	count := math.Floor((ends[1]-ends[0])/ends[2]+1e-9) + 1
	if !(ends[2] > 0) || !(count >= 1) || count > maxRuns {
		return nil, fmt.Errorf("want FROM at most TO, and a STEP that makes 1 to %d values", maxRuns)
	}
	for i := range int(count) {
		x := ends[0] + float64(i)*ends[2]
		if times {
			out = append(out, seconds.Short(time.Duration(math.Round(x))*time.Second))
		} else {
			out = append(out, strconv.FormatFloat(math.Round(x*1e9)/1e9, 'f', -1, 64))
		}
	}
	return out, nil
}
