package message

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// MaxResource is the largest cpus, mem, disk or gpus of one copy. A sum over MaxInstances copies of
// many apps stays finite.
const MaxResource = 1e15

// MaxRow is the maximum length of a row, in bytes of JSON.
const MaxRow = 64 << 10

// DecodeApp decodes and validates a row of AppsBucket. What would stop copies, move them or lower the need of the app if it
// counted as 0 or "" is required.
func DecodeApp(data []byte) (api.App, error) {
	var a api.App
	if len(data) > MaxRow {
		return a, fmt.Errorf("decode app: the row has %d bytes: at most %d are allowed", len(data), MaxRow)
	}
	if err := Unmarshal(data, &a, "name", "pool", "instances", "version", "cpus", "mem", "disk"); err != nil {
		return api.App{}, fmt.Errorf("decode app: %w", err)
	}
	if err := ValidateApp(a); err != nil {
		return api.App{}, fmt.Errorf("decode app: %w", err)
	}
	return a, nil
}

// ValidateApp joins all problems of the row; each is a *FieldError.
func ValidateApp(a api.App) error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
	}
	if !names.Valid(a.Name) {
		bad("name", "is %q: %s", a.Name, names.Rule)
	}
	if !names.Valid(a.Pool) {
		bad("pool", "is %q: %s", a.Pool, names.Rule)
	}
	if a.Instances < 0 || a.Instances > MaxInstances {
		bad("instances", "is %d, outside 0 to %d", a.Instances, MaxInstances)
	}
	if a.Release != "" && !names.ValidRef(a.Release) {
		bad("release", "is %.100q; use NAMESPACE/NAME@VERSION", a.Release)
	}
	if len(a.Version) > MaxID {
		bad("version", "is longer than %d bytes", MaxID)
	}
	switch a.State {
	case "", api.AppStarted, api.AppStopped:
	default:
		bad("state", "is %q; use %s or %s", a.State, api.AppStarted, api.AppStopped)
	}
	switch a.Package {
	case "", api.PackageStaged, api.PackagePending, api.PackageFailed:
	default:
		bad("package_state", "is %q; use %s, %s or %s", a.Package, api.PackageStaged, api.PackagePending, api.PackageFailed)
	}
	if len(a.Labels) > 0 {
		validateLabels(a, bad)
	}
	for _, r := range []struct {
		field string
		value float64
	}{{"cpus", a.CPUs}, {"mem", a.Mem}, {"disk", a.Disk}, {"gpus", a.GPUs}} {
		if math.IsNaN(r.value) || r.value < 0 || r.value > MaxResource {
			bad(r.field, "is %v, outside 0 to %v", r.value, float64(MaxResource))
		}
	}
	if err := ValidateReadiness(a.Ready); err != nil {
		errs = append(errs, err)
	}
	if field, size, row := longest(a); row > MaxRow {
		bad(field, "has %d bytes, and the row %d: at most %d are allowed", size, row, MaxRow)
	}
	return errors.Join(errs...)
}

// Bounds of a readiness.
const (
	maxReadySpan     = time.Hour
	maxReadyCommand  = 4 << 10 // bytes
	maxReadyPath     = 1 << 10 // bytes
	maxReadyFailures = 1000
)

// ValidateReadiness joins all problems of a readiness; each is a *FieldError. nil is valid.
func ValidateReadiness(r *api.Readiness) error {
	if r == nil {
		return nil
	}
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, &FieldError{Field: strings.TrimSuffix("ready."+field, "."), Problem: fmt.Sprintf(format, args...)})
	}
	port := func(field string, n int) {
		if n < 1 || n > math.MaxUint16 {
			bad(field, "is %d, outside 1 to %d", n, math.MaxUint16)
		}
	}
	checks := 0
	if h := r.HTTP; h != nil {
		checks++
		port("http.port", h.Port)
		if h.Path != "" && (h.Path[0] != '/' || len(h.Path) > maxReadyPath || !isPath(h.Path)) {
			bad("http.path", "is %.100q: it begins with /, and has at most %d printable bytes without spaces", h.Path, maxReadyPath)
		}
		if h.Status != 0 && (h.Status < 100 || h.Status > 599) {
			bad("http.status", "is %d, outside 100 to 599", h.Status)
		}
	}
	if r.TCP != nil {
		checks++
		port("tcp.port", r.TCP.Port)
	}
	if r.Exec != nil {
		checks++
		if n := len(r.Exec.Command); n == 0 || n > maxReadyCommand {
			bad("exec.command", "has %d bytes: want 1 to %d", n, maxReadyCommand)
		}
	}
	if checks > 1 {
		bad("", "has %d checks: use one of http, tcp and exec", checks)
	}
	d := r.WithDefaults()
	for _, span := range []struct {
		field string
		value api.Duration
		least time.Duration
	}{
		{"after", *d.After, 0}, {"within", d.Within, time.Second}, {"timeout", d.Timeout, time.Millisecond}, {"period", d.Period, 100 * time.Millisecond},
	} {
		if v := time.Duration(span.value); v < span.least || v > maxReadySpan {
			bad(span.field, "is %v, outside %v to %v", v, span.least, maxReadySpan)
		}
	}
	if d.Failures < 1 || d.Failures > maxReadyFailures {
		bad("failures", "is %d, outside 1 to %d", d.Failures, maxReadyFailures)
	}
	if r.RestartUnready && checks == 0 {
		bad("restart_unready", "needs a check: http, tcp or exec")
	}
	return errors.Join(errs...)
}

// isPath reports whether the text can be the path of an HTTP request.
func isPath(text string) bool {
	for _, c := range []byte(text) {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}

// longest returns the longest field of a row and its length, and the length of the row as JSON.
func longest(a api.App) (field string, size, row int) {
	sum := len(a.Command)
	field, size = "command", sum
	for key, value := range a.Labels {
		if sum += len(key) + len(value); len(value) > size {
			field, size = "labels."+key, len(value)
		}
	}
	const escaped, rest = 6, 4 << 10 // bytes of JSON for one of text, and of all other fields
	if sum*escaped+rest <= MaxRow {
		return field, size, 0 // short enough in any case
	}
	text, err := json.Marshal(a)
	if err != nil {
		return field, size, 0 // another problem names it
	}
	return field, size, len(text)
}

func validateLabels(a api.App, bad func(field, format string, args ...any)) {
	if len(a.Labels) > maxLabels {
		bad("labels", "has %d entries; at most %d are allowed", len(a.Labels), maxLabels)
	}
	for _, key := range slices.Sorted(maps.Keys(a.Labels)) {
		if !names.Valid(key) {
			bad("labels", "key %q: %s", key, names.Rule)
		}
		if len(a.Labels[key]) > MaxLabel {
			bad("labels."+key, "is longer than %d bytes", MaxLabel)
		}
	}
}

// VersionOf returns a version for the row: a hash of its command, its release, its readiness and the resources of an instance. It does
// not change with the number of instances.
func VersionOf(a api.App) string {
	text := fmt.Appendf(nil, "%q %v", a.Command, a.Footprint())
	if a.Release != "" { // without one, the version is that of weir without releases
		text = fmt.Appendf(text, " %q", a.Release)
	}
	if a.Ready != nil {
		ready, _ := json.Marshal(a.Ready) // plain values: never an error
		text = append(append(text, ' '), ready...)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:4])
}

// StatusSubject is the subject for requests of the harmonizer's status.
func StatusSubject(cluster string) string { return names.Subject(cluster, "harmonizer", "status") }
