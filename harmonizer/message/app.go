package message

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// most is the largest cpus, mem, disk or gpus of one copy: a sum over
// MaxInstances copies of many apps stays far from infinity.
const most = 1e15

// DecodeApp reads a row of AppsBucket and validates it.
func DecodeApp(data []byte) (App, error) {
	var a App
	if err := unmarshal(data, &a); err != nil {
		return App{}, fmt.Errorf("decode app: %w", err)
	}
	if err := a.Validate(); err != nil {
		return App{}, fmt.Errorf("decode app: %w", err)
	}
	return a, nil
}

// Validate joins everything that is wrong with the row; each problem is a
// *FieldError.
func (a App) Validate() error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
	}
	if !ValidName(a.Name) {
		bad("name", nameRule, a.Name)
	}
	if !ValidName(a.Pool) {
		bad("pool", nameRule, a.Pool)
	}
	if a.Instances < 0 || a.Instances > MaxInstances {
		bad("instances", "is %d, outside 0 to %d", a.Instances, MaxInstances)
	}
	if len(a.Version) > MaxID {
		bad("version", "is longer than %d bytes", MaxID)
	}
	switch a.State {
	case "", AppStarted, AppStopped:
	default:
		bad("state", "is %q; use %s or %s", a.State, AppStarted, AppStopped)
	}
	switch a.Package {
	case "", PackageStaged, PackagePending, PackageFailed:
	default:
		bad("package_state", "is %q; use %s, %s or %s", a.Package, PackageStaged, PackagePending, PackageFailed)
	}
	if len(a.Labels) > 0 {
		a.validateLabels(bad)
	}
	for _, r := range []struct {
		field string
		value float64
	}{{"cpus", a.CPUs}, {"mem", a.Mem}, {"disk", a.Disk}, {"gpus", a.GPUs}} {
		if math.IsNaN(r.value) || r.value < 0 || r.value > most {
			bad(r.field, "is %v, outside 0 to %v", r.value, float64(most))
		}
	}
	return errors.Join(errs...)
}

func (a App) validateLabels(bad func(field, format string, args ...any)) {
	if len(a.Labels) > MaxLabels {
		bad("labels", "are %d, more than %d", len(a.Labels), MaxLabels)
	}
	for _, key := range slices.Sorted(maps.Keys(a.Labels)) {
		if !ValidName(key) {
			bad("labels", nameRule, key)
		}
		if len(a.Labels[key]) > MaxLabel {
			bad("labels."+key, "is longer than %d bytes", MaxLabel)
		}
	}
}

// nameRule is what ValidName demands, for people.
const nameRule = "is not a name: %q; use letters, digits, _ and -, starting with a letter or digit, at most 63"

// ValidName reports whether s may name an app or a pool:
// [A-Za-z0-9][A-Za-z0-9_-]{0,62}, so that it is also one token of a subject and
// a key of a bucket.
func ValidName(s string) bool {
	if len(s) == 0 || len(s) > 63 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '_' && c != '-') {
			return false
		}
	}
	return true
}

// StatusSubject answers a request with what the harmonizer knows and why it
// did what it did.
func StatusSubject(cluster string) string { return "weir." + cluster + ".harmonizer.status" }
