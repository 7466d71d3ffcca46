package message

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
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
	validateVersion("", a.Live(), bad)
	validateHistory(a, bad)
	if u := a.Update; u != nil && (u.StopAfter < 0 || u.StopAfter > maxStopAfter) {
		bad("update.stop_after", "is %d, outside 1 to %d", u.StopAfter, maxStopAfter)
	}
	if s := a.Spread; s != nil {
		switch s.By {
		case "", api.SpreadByNode, api.SpreadByZone:
		default:
			bad("spread.by", "is %.100q; use %s or %s", s.By, api.SpreadByNode, api.SpreadByZone)
		}
		if s.AtMostPerNode < 0 || s.AtMostPerNode > MaxInstances {
			bad("spread.at_most_per_node", "is %d, outside 0 to %d", s.AtMostPerNode, MaxInstances)
		}
	}
	if r := a.Retries; r != nil && (*r < 0 || *r > maxRetries || !a.OneShot) {
		bad("retries", "is %d: want 0 to %d, and one_shot", *r, maxRetries)
	}
	if field, size, row := longest(a); row > MaxRow {
		bad(field, "has %d bytes, and the row %d: at most %d are allowed", size, row, MaxRow)
	}
	return errors.Join(errs...)
}

// Bounds of a version.
const (
	maxEnv       = 100 // variables
	maxStopAfter = 1000
	maxRetries   = 1000
)

// validateVersion reports the problems of a version, with fields that begin with a prefix.
func validateVersion(prefix string, v api.AppVersion, bad func(field, format string, args ...any)) {
	if v.Release != "" && !names.ValidRef(v.Release) {
		bad(prefix+"release", "is %.100q; use NAMESPACE/NAME@VERSION", v.Release)
	}
	if len(v.Version) > MaxID {
		bad(prefix+"version", "is longer than %d bytes", MaxID)
	}
	for _, r := range []struct {
		field string
		value float64
	}{{"cpus", v.CPUs}, {"mem", v.Mem}, {"disk", v.Disk}, {"gpus", v.GPUs}} {
		if math.IsNaN(r.value) || r.value < 0 || r.value > MaxResource {
			bad(prefix+r.field, "is %v, outside 0 to %v", r.value, float64(MaxResource))
		}
	}
	if err := ValidateEnv(v.Env); err != nil {
		bad(prefix+"env", "%v", err)
	}
	validateReadiness(prefix+"ready.", v.Ready, v.Ports, bad)
	validatePorts(prefix+"ports", v.Ports, bad)
}

// ValidatePorts joins all problems of the ports of an instance; each is a *FieldError.
func ValidatePorts(ports []api.Port) error {
	var errs []error
	validatePorts("ports", ports, func(field, format string, args ...any) {
		errs = append(errs, &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
	})
	return errors.Join(errs...)
}

func validatePorts(field string, ports []api.Port, bad func(field, format string, args ...any)) {
	if len(ports) > api.MaxPorts {
		bad(field, "has %d ports; at most %d are allowed", len(ports), api.MaxPorts)
		return
	}
	variables, numbers := map[string]bool{}, map[api.PortNumber]bool{}
	for i, p := range ports {
		one := fmt.Sprintf("%s[%d]", field, i)
		switch {
		case !portName.MatchString(p.Name):
			bad(one+".name", "is %.100q: use a letter, then at most 31 letters, digits, - and _", p.Name)
		case variables[p.Variable()]:
			bad(one+".name", "is %q: another port has the variable %s", p.Name, p.Variable())
		}
		switch {
		case p.Port == api.AutoPort:
		case p.Port < 1 || p.Port > math.MaxUint16:
			bad(one+".port", "is %d, outside 1 to %d, and not auto", p.Port, math.MaxUint16)
		case numbers[p.Port]:
			bad(one+".port", "is %d, as that of another port", p.Port)
		}
		variables[p.Variable()], numbers[p.Port] = true, true
	}
}

var portName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,31}$`)

// validateHistory reports the problems of the earlier versions.
func validateHistory(a api.App, bad func(field, format string, args ...any)) {
	if len(a.History) > api.MaxHistory {
		bad("history", "has %d versions; at most %d are allowed", len(a.History), api.MaxHistory)
		return
	}
	seen := map[string]bool{a.Version: true}
	for i, v := range a.History {
		prefix := fmt.Sprintf("history[%d].", i)
		if v.Version == "" || seen[v.Version] {
			bad(prefix+"version", "is %.100q: each version is there once, and has a name", v.Version)
		}
		seen[v.Version] = true
		validateVersion(prefix, v, bad)
	}
}

// ValidateEnv returns the first problem of environment variables.
func ValidateEnv(env map[string]string) error {
	if len(env) > maxEnv {
		return fmt.Errorf("has %d variables; at most %d are allowed", len(env), maxEnv)
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		switch {
		case !envName.MatchString(name):
			return fmt.Errorf("has the name %.100q: use letters, digits and _, and no digit first", name)
		case strings.HasPrefix(name, "WEIR_"):
			return fmt.Errorf("has the name %.100q: the agent sets those that begin with WEIR_", name)
		case strings.ContainsRune(env[name], 0):
			return fmt.Errorf("has a zero byte in the value of %.100s", name)
		}
	}
	return nil
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// Bounds of a readiness.
const (
	maxReadySpan     = time.Hour
	maxReadyCommand  = 4 << 10 // bytes
	maxReadyPath     = 1 << 10 // bytes
	maxReadyFailures = 1000
)

// ValidateReadiness joins all problems of a readiness of an instance with these ports; each is a *FieldError. nil is valid.
func ValidateReadiness(r *api.Readiness, ports []api.Port) error {
	var errs []error
	validateReadiness("ready.", r, ports, func(field, format string, args ...any) {
		errs = append(errs, &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
	})
	return errors.Join(errs...)
}

func validateReadiness(prefix string, r *api.Readiness, ports []api.Port, report func(field, format string, args ...any)) {
	if r == nil {
		return
	}
	bad := func(field, format string, args ...any) {
		report(strings.TrimSuffix(prefix+field, "."), format, args...)
	}
	port := func(field string, p api.PortRef) {
		switch {
		case p.Name != "" && !slices.ContainsFunc(ports, func(o api.Port) bool { return o.Name == p.Name }):
			bad(field, "is %.100q, which is not the name of a port", p.Name)
		case p.Name == "" && (p.Number < 1 || p.Number > math.MaxUint16):
			bad(field, "is %d, outside 1 to %d", p.Number, math.MaxUint16)
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
	for kind, values := range map[string]map[string]string{"labels.": a.Labels, "env.": a.Env} {
		for key, value := range values {
			if sum += len(key) + len(value); len(value) > size {
				field, size = kind+key, len(value)
			}
		}
	}
	if len(a.History) > 0 {
		sum = MaxRow // the row is measured
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

// VersionOf returns a version for the row: a hash of its command, its release, its readiness, its environment, its ports, the resources of an instance, and whether it ends. It
// changes with a restart, and not with the number of instances.
func VersionOf(a api.App) string {
	text := fmt.Appendf(nil, "%q %v", a.Command, a.Footprint())
	if a.Release != "" { // without one, the version is that of weir without releases
		text = fmt.Appendf(text, " %q", a.Release)
	}
	if a.Ready != nil || len(a.Env) > 0 {
		more, _ := json.Marshal([]any{a.Ready, a.Env}) // plain values: never an error
		text = append(append(text, ' '), more...)
	}
	if len(a.Ports) > 0 {
		more, _ := json.Marshal(a.Ports) // plain values: never an error
		text = append(append(text, " ports "...), more...)
	}
	if a.OneShot {
		text = append(text, " one_shot"...)
	}
	if !a.Restarted.IsZero() {
		text = fmt.Appendf(text, " %d", a.Restarted.UnixNano())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:4])
}

// StatusSubject is the subject for requests of the harmonizer's status.
func StatusSubject(cluster string) string { return names.Subject(cluster, "harmonizer", "status") }
