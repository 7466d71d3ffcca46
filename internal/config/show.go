package config

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// Section is a section of a file with its keys in order. Its JSON is an object.
type Section []Key

// Key is a key of a section. Its value is a Section, a []any, or a scalar.
type Key struct {
	Name  string
	Value any
}

// Title returns the path of the file, and whether it is missing.
func (s Shown) Title() string {
	if s.Missing {
		return s.File + ": missing, so all values are defaults"
	}
	return s.File
}

// MarshalJSON keeps the order of the keys.
func (s Section) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, k := range s {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(k.Name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(k.Value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Shown is a decoded file.
type Shown struct {
	File    string  `json:"file"` // its path
	Missing bool    `json:"missing,omitempty"`
	Content Section `json:"content"`
}

// Show returns the decoded files with defaults. The pool's block autoscaling has the values that apply to the pool: its
// own, or else those of the service file. Passwords are hidden, also in URLs
// and in free maps such as the parameters of a signal. Paths of files with secrets are shown, the files are not read.
func Show(s Service, p Pool, h Harmonizer) []Shown {
	p.Autoscaling = effective(s, p)
	return []Shown{
		shownFile(completeService(s), s.document, "weir.yaml"),
		shownFile(completePool(p), p.document, FileOf(p.Cluster, p.Name)),
		shownFile(completeHarmonizer(h), h.document, "harmonizer.yaml"),
	}
}

// shownFile returns a decoded file. name is its name if its path is unknown.
func shownFile(file any, d document, name string) Shown {
	return Shown{firstOf(d.file, name), d.lines == nil, shownSection(reflect.ValueOf(file), d, "")}
}

// effective returns the autoscaling block that applies to a pool.
func effective(s Service, p Pool) Autoscaling {
	a := p.Autoscaling
	fillZero(reflect.ValueOf(&a).Elem(), reflect.ValueOf(s.Autoscaling))
	loop := Autoscaler(s, p)
	fillZero(reflect.ValueOf(&a).Elem(), reflect.ValueOf(Autoscaling{
		Tick: loop.Tick, Lease: state.DefaultTTL, Combine: string(loop.Policy.Combine), Drift: driftObey,
		MarginUp: &loop.Policy.MarginUp, MarginDown: &loop.Policy.MarginDown, OrphanS: new(defaultOrphan), FailedBoots: new(defaultFailedBoots), Distribution: distributeBalanced, InterruptedWork: new(defaultInterruptedWork),
		LossBrake: new(false), ByPriority: new(false), ConfigurationGrace: &loop.Grace,
	}))
	return a
}

// fillZero copies the fields of a struct that are zero from another value of its type.
func fillZero(to, from reflect.Value) {
	for i := range to.NumField() {
		switch field := to.Field(i); {
		case field.Kind() == reflect.Struct:
			fillZero(field, from.Field(i))
		case field.IsZero():
			field.Set(from.Field(i))
		}
	}
}

func completeService(s Service) Service {
	fillZero(reflect.ValueOf(&s.Admin).Elem(), reflect.ValueOf(defaultAdmin()))
	if !s.document.given("auth") {
		s.Auth = Auth{}
	}
	if s.AutoscaleSig.Period == 0 && s.AutoscaleSig.PeriodMin == 0 {
		s.AutoscaleSig.Period = defaultPeriod
	}
	s.AutoscaleSig.Limits = s.AutoscaleSig.Limits.complete()
	s.SignalUsers = firstOf(s.SignalUsers, strconv.Itoa(firstUser)+"-"+strconv.Itoa(lastUser))
	s.Releases.Layout = firstOf(s.Releases.Layout, LayoutWeir)
	s.Releases.RequireSignature = new(s.Releases.SignatureRequired())
	return s
}

func completePool(p Pool) Pool {
	p.Signals = slices.Clone(p.Signals)
	for i := range p.Signals {
		s := &p.Signals[i]
		s.Raise = slices.Clone(s.Raise)
		for j := range s.Raise {
			s.Raise[j] = s.Raise[j].complete()
		}
		if s.Name == "" {
			continue // the default signal has these values
		}
		s.Program = s.Program.complete()
		s.HoldFor = s.hold(s.Every(defaultPeriod))
	}
	if p.Health != nil {
		health := *p.Health
		health.Policy = health.WithDefaults()
		p.Health = &health
	}
	p.Draining.Spot = new(p.Draining.FollowsWarnings())
	p.Rotation.Gate.Wait, p.Rotation.StopAfter = new(orElse(p.Rotation.Gate.Wait, defaultGateWait)), firstOf(p.Rotation.StopAfter, 1)
	p.Ledger.MaxAge = firstOf(p.Ledger.MaxAge, streams.LedgerAge)
	p.Ledger.MaxBytes = firstOf(p.Ledger.MaxBytes, Size(streams.LedgerBytes))
	p.Ledger.Summaries.MaxAge = firstOf(p.Ledger.Summaries.MaxAge, streams.SummaryAge)
	p.Ledger.Summaries.MaxBytes = firstOf(p.Ledger.Summaries.MaxBytes, Size(streams.SummaryBytes))
	return p
}

// complete returns the program with defaults.
func (s Program) complete() Program {
	if s.Period == 0 && s.PeriodMin == 0 {
		s.Period = defaultPeriod
	}
	s.Limits = s.Limits.complete()
	if s.Shadow != nil && s.Shadow.Tolerance == nil {
		shadow := *s.Shadow
		shadow.Tolerance = new(defaultTolerance)
		s.Shadow = &shadow
	}
	return s
}

// complete returns the limits with defaults.
func (p Process) complete() Process {
	p.Memory, p.Processes, p.OpenFiles = new(orElse(p.Memory, defaultMemory)), new(orElse(p.Processes, defaultProcesses)), new(orElse(p.OpenFiles, defaultOpenFiles))
	return p
}

// completeHarmonizer returns h with the defaults of its intervals and rules.
func completeHarmonizer(h Harmonizer) Harmonizer {
	rules := h.Rules().WithDefaults()
	h.DisruptionLimit, h.DisruptionFloor = &rules.DisruptionLimit, rules.DisruptionFloor
	h.Lease = firstOf(h.Lease, state.DefaultTTL)
	in := h.Intervals
	in.DesiredUpdate, in.DesiredLost, in.Deadline, in.Credentials = nil, nil, nil, nil // merged into their newer keys
	fillZero(reflect.ValueOf(&in).Elem(), reflect.ValueOf(Intervals{
		ExpectedUpdate: new(Seconds(h.ExpectedUpdate())), ExpectedLost: new(Seconds(h.ExpectedLost())),
		DropletLost: new(Seconds(rules.DropletLost)), Heartbeat: new(Seconds(rules.HeartbeatPeriod)),
		KeepAlive: new(Seconds(rules.NudgeKeepAlive)), ResetGrace: (*Seconds)(rules.ResetGrace),
		FlappingDeath: rules.FlappingDeath, FlappingTime: new(Seconds(rules.FlappingTimeout)),
		MinDelay: new(Seconds(rules.MinRestartDelay)), MaxDelay: new(Seconds(rules.MaxRestartDelay)),
		Noise: (*Seconds)(rules.DelayTimeNoise), GiveUp: rules.GiveupCrashNumber,
		QueueEvery: new(Seconds(rules.RequestQueue)), QueueBatch: new(rules.QueueBatchSize),
		RequestTimeout: new(Seconds(h.RequestTimeout())), AppGrace: (*Seconds)(rules.DropletGCGracePeriod),
	}))
	h.Intervals = in
	return h
}

// shownSection returns the keys of a struct that have a value, or that the file has.
func shownSection(v reflect.Value, d document, path string) Section {
	section := Section{}
	for i := range v.NumField() {
		f, value := v.Type().Field(i), v.Field(i)
		if isInline(f) {
			section = append(section, shownSection(value, d, path)...)
			continue
		}
		name := tagOf(f)
		at := strings.TrimPrefix(path+"."+name, ".")
		if name == "" || value.IsZero() && (value.Kind() == reflect.Pointer || !d.given(at)) {
			continue
		}
		if f.Tag.Get("secret") != "" && !value.IsZero() {
			section = append(section, Key{name, hidden})
			continue
		}
		if shown := shownValue(value, d, at); !isEmptySection(shown) || d.given(at) {
			section = append(section, Key{name, shown})
		}
	}
	return section
}

func isEmptySection(v any) bool {
	s, ok := v.(Section)
	return ok && len(s) == 0
}

// shownValue returns a value as a file has it.
func shownValue(v reflect.Value, d document, path string) any {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return Section{}
		}
		v = v.Elem()
	}
	if text, ok := shownLeaf(v.Interface()); ok {
		return text
	}
	switch v.Kind() {
	case reflect.Struct:
		return shownSection(v, d, path)
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = shownValue(v.Index(i), d, path+"["+strconv.Itoa(i)+"]")
		}
		return list
	case reflect.Map:
		section := Section{}
		for _, key := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
			section = append(section, Key{key.String(), shownValue(v.MapIndex(key), d, path+"."+key.String())})
		}
		return section
	case reflect.String:
		return withoutPasswords(v.String())
	}
	return v.Interface()
}

// shownLeaf returns a value of a type that decodes itself. ok is false for other types.
func shownLeaf(v any) (shown any, ok bool) {
	switch x := v.(type) {
	case time.Duration:
		return seconds.Short(x), true
	case Age:
		return ageText(time.Duration(x)), true
	case Seconds:
		return seconds.Short(time.Duration(x)), true
	case judge.Duration:
		return seconds.Short(time.Duration(x)), true
	case judge.Limit:
		if !x.Percent {
			return x.Value, true
		}
		return x.String(), true
	case Weight:
		if x == api.Unlimited {
			return "inf", true
		}
		return float64(x), true
	case TaskLimit:
		if x.Unlimited {
			return "inf", true
		}
		return x.N, true
	case Amount:
		if x.Share != 0 {
			return strconv.FormatFloat(x.Share*100, 'f', -1, 64) + "%", true
		}
		return x.Weight, true
	case Size:
		return x.String(), true
	case Parameters:
		return withoutSecrets(map[string]any(x)), true
	case map[string]string: // the input of a workflow
		free := map[string]any{}
		for k, text := range x {
			free[k] = text
		}
		return withoutSecrets(free), true
	case Group:
		return chosen(x.Keys, x.Value), true
	case Metrics:
		return chosen(x.Keys, x.Value), true
	case Source:
		return chosen(x.Keys, x.Value), true
	case Identity:
		return chosen(x.Keys, x.Value), true
	case Verifiers:
		section := Section{}
		for _, key := range sortedNames(x.Values) {
			section = append(section, chosen([]string{key}, x.Values[key])...)
		}
		return section, true
	}
	return nil, false
}

// chosen returns a section with one key.
func chosen(keys []string, value any) Section {
	if len(keys) == 0 {
		return Section{}
	}
	return Section{{keys[0], shownValue(reflect.ValueOf(value), document{}, "")}}
}

// String returns the size in its largest unit without a fraction.
func (s Size) String() string {
	for _, unit := range []string{"GiB", "MiB", "KiB"} {
		for _, u := range units {
			if u.name == unit && s != 0 && int64(s)%u.bytes == 0 {
				return strconv.FormatInt(int64(s)/u.bytes, 10) + unit
			}
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// hidden replaces a password.
const hidden = "(hidden)"

var (
	// credentials are user, password or token in a URL.
	credentials = regexp.MustCompile(`://[^/\s,]*@`)
	// secretName is a key of a free map that probably has a secret.
	secretName = regexp.MustCompile(`(?i)passw|secret|token|credential|api_?key|private_?key|access_?key`)
)

func withoutPasswords(text string) string {
	return credentials.ReplaceAllString(text, "://"+hidden+"@")
}

// withoutSecrets returns a map with any keys. It hides texts at keys that probably have a secret.
func withoutSecrets(m map[string]any) Section {
	section := Section{}
	for _, key := range sortedNames(m) {
		value := withoutSecretsIn(m[key])
		if _, isText := value.(string); isText && secretName.MatchString(key) && !strings.HasSuffix(key, "_file") {
			value = hidden
		}
		section = append(section, Key{key, value})
	}
	return section
}

func withoutSecretsIn(v any) any {
	switch x := v.(type) {
	case map[string]any:
		return withoutSecrets(x)
	case []any:
		list := make([]any, len(x))
		for i, one := range x {
			list[i] = withoutSecretsIn(one)
		}
		return list
	case string:
		return withoutPasswords(x)
	}
	return v
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
