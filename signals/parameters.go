package signals

import (
	"fmt"
	"math"
	"time"
)

// Parameters are a signal's own settings. Each accessor returns fallback if the parameter is missing or null. It
// returns an error with the name if the parameter has another type.
type Parameters map[string]any

// Float returns a number.
func (p Parameters) Float(name string, fallback float64) (float64, error) {
	return get(p, name, fallback, "a number")
}

// Int returns a whole number.
func (p Parameters) Int(name string, fallback int) (int, error) {
	x, err := get(p, name, float64(fallback), "a whole number")
	if err != nil {
		return 0, err
	}
	if x != math.Trunc(x) || math.Abs(x) > 1<<53 {
		return 0, wrong(name, x, "a whole number")
	}
	return int(x), nil
}

// String returns a string.
func (p Parameters) String(name, fallback string) (string, error) {
	return get(p, name, fallback, "a string")
}

// Bool returns a boolean.
func (p Parameters) Bool(name string, fallback bool) (bool, error) {
	return get(p, name, fallback, "true or false")
}

// Duration returns a duration, written as "90s" or "1h30m".
func (p Parameters) Duration(name string, fallback time.Duration) (time.Duration, error) {
	text, err := get(p, name, fallback.String(), `a duration such as "90s"`)
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, wrong(name, text, `a duration such as "90s"`)
	}
	return d, nil
}

func get[T any](p Parameters, name string, fallback T, want string) (T, error) {
	value, ok := p[name]
	if !ok || value == nil {
		return fallback, nil
	}
	typed, ok := value.(T)
	if !ok {
		return typed, wrong(name, value, want)
	}
	return typed, nil
}

func wrong(name string, value any, want string) error {
	return fmt.Errorf("parameter %q is %#v, want %s", name, value, want)
}
