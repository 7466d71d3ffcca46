package judge

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
)

// Duration is a time.Duration that a policy states as a number of seconds or as text such as "10m".
type Duration time.Duration

// longest is the maximum of every duration of a policy.
const longest = 365 * 24 * time.Hour

var errDuration = errors.New(`want a number of seconds or a duration such as "30s" or "10m", at most a year`)

// String returns d as time.Duration prints it.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes d as "1m30s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalJSON reads a number of seconds or a duration.
func (d *Duration) UnmarshalJSON(data []byte) error {
	return d.UnmarshalYAML(func(v any) error { return json.Unmarshal(data, v) })
}

// UnmarshalYAML reads a number of seconds or a duration.
func (d *Duration) UnmarshalYAML(unmarshal func(any) error) error {
	var value any
	if err := unmarshal(&value); err != nil {
		return err
	}
	if text, ok := value.(string); ok {
		parsed, err := time.ParseDuration(text)
		if err != nil || parsed < 0 || parsed > longest {
			return errDuration
		}
		*d = Duration(parsed)
		return nil
	}
	seconds, ok := number(value)
	if !ok || !(seconds >= 0 && seconds <= longest.Seconds()) {
		return errDuration
	}
	*d = Duration(math.Round(seconds * float64(time.Second)))
	return nil
}

// Limit is a number of nodes, or a percentage of all nodes.
type Limit struct {
	Value float64
	// Percent is set if Value is a percentage.
	Percent bool
}

var errLimit = errors.New(`want a whole number of nodes or a percentage of at most 100 such as "20%"`)

// Of returns the number of nodes out of total: rounded up, and at least 1.
func (l Limit) Of(total int) int {
	n := l.Value
	if l.Percent {
		n = resource.Ceil(l.Value * float64(total) / 100)
	}
	return int(min(max(1, n), math.MaxInt32))
}

// String returns "3" or "20%".
func (l Limit) String() string {
	text := strconv.FormatFloat(l.Value, 'g', -1, 64)
	if l.Percent {
		text += "%"
	}
	return text
}

// MarshalText writes l as "3" or "20%".
func (l Limit) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalJSON reads a number or a percentage.
func (l *Limit) UnmarshalJSON(data []byte) error {
	return l.UnmarshalYAML(func(v any) error { return json.Unmarshal(data, v) })
}

// UnmarshalYAML reads a number or a percentage.
func (l *Limit) UnmarshalYAML(unmarshal func(any) error) error {
	var value any
	if err := unmarshal(&value); err != nil {
		return err
	}
	got := Limit{}
	if text, ok := value.(string); ok {
		text, got.Percent = strings.CutSuffix(text, "%")
		n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil {
			return errLimit
		}
		got.Value = n
	} else if got.Value, ok = number(value); !ok {
		return errLimit
	}
	if !got.sane() {
		return errLimit
	}
	*l = got
	return nil
}

func (l Limit) sane() bool {
	if l.Percent {
		return l.Value >= 0 && l.Value <= 100
	}
	return l.Value >= 0 && l.Value <= math.MaxInt32 && l.Value == math.Trunc(l.Value)
}

// number returns the value of a number from the YAML or JSON decoder.
func number(value any) (float64, bool) {
	switch x := value.(type) {
	case uint64:
		return float64(x), true
	case int64:
		return float64(x), true
	case float64:
		return x, !math.IsNaN(x)
	}
	return 0, false
}

// Problem is one mistake in a policy.
type Problem struct {
	Path string // of the key: "detection.detection_modes[1].options.poll_url"
	What string // "is 2s: want at least 5s"
}

// Error returns the problem as "path what".
func (p *Problem) Error() string { return p.Path + " " + p.What }

// problems collects the mistakes of a policy.
type problems []error

func (ps *problems) add(path, format string, args ...any) {
	*ps = append(*ps, &Problem{Path: path, What: fmt.Sprintf(format, args...)})
}
