package config

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
)

// Harmonizer is the file harmonizer.yaml, or a health_manager.yml of Cloud Foundry. Ignored keys of that file are
// warnings.
type Harmonizer struct {
	MBus            string        `yaml:"mbus"` // URLs of NATS servers, with commas; replaces those of weir.yaml
	Partition       string        `yaml:"cc_partition"`
	FilterPartition *bool         `yaml:"cc_partition_filter"`    // messages of other partitions are ignored; default: true if cc_partition is given
	Dialect         string        `yaml:"dialect"`                // of nudges: health, cloudcontroller or both; default: see cloudfoundry.ChooseDialect, else health
	LegacyDEAs      bool          `yaml:"legacy_deas"`            // receive messages of DEAs, which share dea.heartbeat and droplet.exited
	Index           Number        `yaml:"index"`                  // number of this health manager, for collectors; default 0
	ShadowMode      string        `yaml:"shadow_mode"`            // enable or disable (default)
	Starter         string        `yaml:"starter"`                // self or controller; default: controller with bulk_api, else self
	Partial         bool          `yaml:"partial_heartbeats"`     // a heartbeat may omit running instances
	Lease           time.Duration `yaml:"lease"`                  // default 15 s
	DisruptionLimit *float64      `yaml:"disruption_limit"`       // share of the instances, or of the rows, lost at once that stops all nudges; default 0.3
	DisruptionFloor *int          `yaml:"disruption_limit_floor"` // fewer lost instances never stop nudges; default 10
	Status          CollectorKeys `yaml:"status"`
	Expected        ExpectedState `yaml:"expected_state"`
	BulkAPI         *BulkAPI      `yaml:"bulk_api"`
	// Apps complete the rows of a bulk API, by app id; "*" is every other app.
	Apps map[string]AppFootprint `yaml:"apps"`
	// Intervals may also be top-level keys.
	Intervals Intervals `yaml:"intervals"`
	AtTop     Intervals `yaml:",inline"`

	document document
}

// CollectorKeys are the address and the credentials of /varz and /healthz.
type CollectorKeys struct {
	Port     Number `yaml:"port"`                   // of Cloud Foundry's health manager: on all addresses unless --admin-addr is given; 0: none
	User     string `yaml:"user"`                   // together with password; default: both random
	Password string `yaml:"password" secret:"true"` // announced on the bus, as collectors expect
}

// Address returns the listen address; empty without a port.
func (k CollectorKeys) Address() string {
	if k.Port == 0 {
		return ""
	}
	return fmt.Sprintf(":%d", k.Port)
}

// ExpectedState is the source of rows without a bulk API and without the bus.
type ExpectedState struct {
	File string `yaml:"file"` // file of apps; relative to this file
}

// BulkAPI is the bulk API of a cloud controller.
type BulkAPI struct {
	Host         string `yaml:"host"`       // http:// http:// is added if it has no scheme
	BatchSize    Number `yaml:"batch_size"` // rows of a page; default 500
	User         string `yaml:"user"`       // default: requested on the bus
	PasswordFile string `yaml:"password_file"`
	// Timeout bounds one page. With a large table, a controller takes many seconds.
	Timeout *Seconds `yaml:"request_timeout"` // default 30 s
}

// AppFootprint is the pool of an app, and the resources of one instance that its row lacks.
type AppFootprint struct {
	Pool string  `yaml:"pool"`
	CPUs float64 `yaml:"cpus"`
	Disk float64 `yaml:"disk"` // MB
}

// Intervals are the numbers of Cloud Foundry's health manager, under its names, and a few of ours. nil: not given.
type Intervals struct {
	ExpectedUpdate *Seconds `yaml:"expected_state_update"`    // between two readings of the bulk API; default 60 s
	DesiredUpdate  *Seconds `yaml:"desired_state_update"`     // its newer name
	ExpectedLost   *Seconds `yaml:"expected_state_lost"`      // a reading counts as fresh for so long; default 180 s
	DesiredLost    *Seconds `yaml:"desired_state_lost"`       // its newer name
	DropletLost    *Seconds `yaml:"droplet_lost"`             // silence after which instances are lost; default 3 heartbeat periods
	Deadline       *Seconds `yaml:"heartbeat_deadline"`       // alias of droplet_lost
	Heartbeat      *Seconds `yaml:"heartbeat_period"`         // of every node; default 10 s
	KeepAlive      *Seconds `yaml:"nudge_keep_alive"`         // before a nudge is repeated; default 30 s
	ResetGrace     *Seconds `yaml:"reset_grace"`              // default 30 s
	FlappingDeath  *int     `yaml:"flapping_death"`           // crashes with an immediate restart; default 1
	FlappingTime   *Seconds `yaml:"flapping_timeout"`         // a crash after a longer time counts as the first; default 500 s
	MinDelay       *Seconds `yaml:"min_restart_delay"`        // of the first delayed restart; default 60 s
	MaxDelay       *Seconds `yaml:"max_restart_delay"`        // upper bound of the doubled delay; default 480 s
	Noise          *Seconds `yaml:"delay_time_noise"`         // random part of a delay, plus or minus; default 5 s
	GiveUp         *int     `yaml:"giveup_crash_number"`      // more crashes end the restarts; 0 or less: never; default 4
	QueueEvery     *Seconds `yaml:"request_queue"`            // default 1 s
	QueueBatch     *int     `yaml:"queue_batch_size"`         // starts within request_queue; default 40
	RequestTimeout *Seconds `yaml:"nats_request_timeout"`     // for the bulk API's credentials; default 5 s
	Credentials    *Seconds `yaml:"bulk_credentials_timeout"` // its newer name
	AppGrace       *Seconds `yaml:"droplet_gc_grace_period"`  // how long an app without a row is remembered; default 240 s
	ShadowDelay    *Seconds `yaml:"max_shadowing_delay"`      // default 10 s
	CheckShadow    *Seconds `yaml:"check_shadowing"`          // default 30 s
}

// Seconds is a duration. The file has a number of seconds, or a duration.
type Seconds time.Duration

const lengths = `a number of seconds, or a duration such as "30s" or "10m"`

// UnmarshalYAML reads a number or a duration.
func (s *Seconds) UnmarshalYAML(unmarshal func(any) error) error {
	var value any
	if err := unmarshal(&value); err != nil {
		return err
	}
	const most = float64(longestSpan / time.Second)
	switch x := value.(type) {
	case uint64:
		if float64(x) <= most {
			*s = Seconds(time.Duration(x) * time.Second)
			return nil
		}
	case float64:
		if x >= 0 && x <= most {
			*s = Seconds(x * float64(time.Second))
			return nil
		}
	case string:
		if d, err := time.ParseDuration(x); err == nil && d >= 0 && d <= longestSpan {
			*s = Seconds(d)
			return nil
		}
	}
	return &wantError{lengths}
}

// Number is a whole number. Cloud Foundry's files also write it as a text.
type Number int

// UnmarshalYAML decodes 500 and "500".
func (n *Number) UnmarshalYAML(unmarshal func(any) error) error {
	var value any
	if err := unmarshal(&value); err != nil {
		return err
	}
	if _, err := fmt.Sscanf(fmt.Sprint(value), "%d", (*int)(n)); err != nil || fmt.Sprint(int(*n)) != fmt.Sprint(value) {
		return &wantError{"a whole number"}
	}
	return nil
}

// HarmonizerFiles returns the files below dir that LoadHarmonizer reads: the first one that exists.
func HarmonizerFiles(dir string) []string {
	return []string{filepath.Join(dir, "harmonizer.yaml"), filepath.Join(dir, cloudfoundry.File)}
}

// LoadHarmonizer reads harmonizer.yaml below dir, or health_manager.yml. Without either it returns defaults. The
// warnings list ignored keys, and how the dialect of a health_manager.yml was chosen.
func LoadHarmonizer(dir string) (Harmonizer, Problems, error) {
	for _, path := range HarmonizerFiles(dir) {
		h, warnings, err := ReadHarmonizer(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return h, warnings, err
		}
	}
	return Harmonizer{}.withDefaults(), nil, nil
}

// ReadHarmonizer reads the harmonizer's file at any path.
func ReadHarmonizer(path string) (Harmonizer, Problems, error) {
	file, err := readFile(path)
	if err != nil {
		return Harmonizer{}, nil, err
	}
	var h Harmonizer
	doc, err := decodeRest(file.Path, file.Text, &h)
	if err != nil {
		return Harmonizer{}, nil, err
	}
	h.document = doc
	if ps := h.merge(); ps != nil {
		return Harmonizer{}, doc.warnings, doc.complete(ps.OrNil())
	}
	if h.Expected.File != "" && !filepath.IsAbs(h.Expected.File) {
		h.Expected.File = filepath.Join(filepath.Dir(path), h.Expected.File)
	}
	original := filepath.Base(path) == cloudfoundry.File
	if h.Dialect == "" && !h.Shadows() && (original || len(doc.warnings) > 0 || doc.given("status")) { // not our own file
		dialect, warning := cloudfoundry.ChooseDialect(doc.has)
		h.Dialect = string(dialect)
		if warning != "" {
			doc.warnings = append(doc.warnings, doc.problem("dialect", warning))
		}
	}
	if original && !doc.given("legacy_deas") {
		doc.warnings = append(doc.warnings, doc.problem("legacy_deas", cloudfoundry.NoLegacyDEAs))
	}
	h = h.withDefaults()
	return h, doc.warnings, doc.complete(h.Validate())
}

// merge moves each interval to one name, in Intervals.
func (h *Harmonizer) merge() Problems {
	var ps Problems
	one := func(key string, into **Seconds, others ...*Seconds) {
		for _, other := range others {
			if *into != nil && other != nil && **into != *other {
				ps = append(ps, h.document.problem("intervals."+key, "is given twice, under two names or in two places, with two values: keep one"))
			}
			if *into == nil {
				*into = other
			}
		}
	}
	number := func(key string, into **int, other *int) {
		if *into != nil && other != nil && **into != *other {
			ps = append(ps, h.document.problem("intervals."+key, "is given twice with two values: keep one"))
		}
		if *into == nil {
			*into = other
		}
	}
	in, top := &h.Intervals, h.AtTop
	one("expected_state_update", &in.ExpectedUpdate, top.ExpectedUpdate, in.DesiredUpdate, top.DesiredUpdate)
	one("expected_state_lost", &in.ExpectedLost, top.ExpectedLost, in.DesiredLost, top.DesiredLost)
	one("droplet_lost", &in.DropletLost, top.DropletLost, in.Deadline, top.Deadline)
	one("heartbeat_period", &in.Heartbeat, top.Heartbeat)
	one("nudge_keep_alive", &in.KeepAlive, top.KeepAlive)
	one("reset_grace", &in.ResetGrace, top.ResetGrace)
	one("flapping_timeout", &in.FlappingTime, top.FlappingTime)
	one("min_restart_delay", &in.MinDelay, top.MinDelay)
	one("max_restart_delay", &in.MaxDelay, top.MaxDelay)
	one("delay_time_noise", &in.Noise, top.Noise)
	one("request_queue", &in.QueueEvery, top.QueueEvery)
	one("nats_request_timeout", &in.RequestTimeout, top.RequestTimeout, in.Credentials, top.Credentials)
	one("droplet_gc_grace_period", &in.AppGrace, top.AppGrace)
	one("max_shadowing_delay", &in.ShadowDelay, top.ShadowDelay)
	one("check_shadowing", &in.CheckShadow, top.CheckShadow)
	number("flapping_death", &in.FlappingDeath, top.FlappingDeath)
	number("giveup_crash_number", &in.GiveUp, top.GiveUp)
	number("queue_batch_size", &in.QueueBatch, top.QueueBatch)
	h.AtTop = Intervals{}
	return ps
}

// Dialects of nudges, values of starter, and values of shadow_mode.
const (
	dialectHealth          = string(cloudfoundry.DialectHealth)
	DialectCloudController = string(cloudfoundry.DialectCloudController)
	dialectBoth            = string(cloudfoundry.DialectBoth)

	starterSelf       = "self"
	starterController = "controller"

	enabled  = "enable"
	disabled = "disable"
)

func (h Harmonizer) withDefaults() Harmonizer {
	if h.FilterPartition == nil {
		h.FilterPartition = new(h.Partition != "")
	}
	h.Partition = firstOf(h.Partition, message.Partition)
	h.Dialect = firstOf(h.Dialect, dialectHealth)
	h.ShadowMode = firstOf(h.ShadowMode, disabled)
	if h.Starter == "" {
		h.Starter = starterSelf
		if h.BulkAPI != nil {
			h.Starter = starterController
		}
	}
	if h.BulkAPI != nil && h.BulkAPI.BatchSize == 0 && !h.document.given("bulk_api.batch_size") {
		h.BulkAPI.BatchSize = 500
	}
	return h
}

// Shadows reports whether the harmonizer only compares itself with another one.
func (h Harmonizer) Shadows() bool { return h.ShadowMode == enabled }

// Validate returns the Problems of h.
func (h Harmonizer) Validate() error {
	d := h.document
	var ps Problems
	at := func(key, format string, args ...any) {
		ps = append(ps, d.problem(key, fmt.Sprintf(format, args...)))
	}
	oneOf := func(key, value string, allowed ...string) {
		if slices.Contains(allowed, value) {
			return
		}
		at(key, "is %q: want %s", value, strings.Join(allowed, " or "))
	}
	oneOf("dialect", h.Dialect, dialectHealth, DialectCloudController, dialectBoth)
	oneOf("shadow_mode", h.ShadowMode, enabled, disabled)
	oneOf("starter", h.Starter, starterSelf, starterController)
	if !names.Valid(h.Partition) {
		at("cc_partition", "is %q: %s", h.Partition, names.Rule)
	}
	if h.Lease != 0 && (h.Lease < shortestLease || h.Lease > longestLease) || h.Lease == 0 && h.document.given("lease") {
		at("lease", "is %s: want %s to %s", seconds.Short(h.Lease), seconds.Short(shortestLease), seconds.Short(longestLease))
	}
	if h.Index < 0 {
		at("index", "is %d: want a number of this harmonizer, at least 0", h.Index)
	}
	if h.Status.Port < 0 || h.Status.Port > math.MaxUint16 {
		at("status.port", "is %d: want a port, or 0", h.Status.Port)
	}
	if (h.Status.User == "") != (h.Status.Password == "") {
		at("status", "has a user or a password alone: give both, or neither for random ones")
	}
	if l := h.DisruptionLimit; l != nil && (*l <= 0 || *l > 1) {
		at("disruption_limit", "is %v: want above 0 and at most 1, a share of the instances; 1 is off", *l)
	}
	if f := h.DisruptionFloor; f != nil && *f < 0 {
		at("disruption_limit_floor", "is %d: want a number of instances, at least 0", *f)
	}
	if h.BulkAPI != nil && h.Expected.File != "" {
		at("expected_state.file", "conflicts with bulk_api: keep one source of rows")
	}
	ps = append(ps, h.sourceProblems()...)
	ps = append(ps, h.Intervals.problems(d)...)
	return ps.OrNil()
}

func (h Harmonizer) sourceProblems() Problems {
	var ps Problems
	at := func(key, format string, args ...any) {
		ps = append(ps, h.document.problem(key, fmt.Sprintf(format, args...)))
	}
	if h.MBus != "" {
		for _, p := range (bus.NATS{Servers: bus.Split(h.MBus)}).Check() {
			at("mbus", "%s", p.What)
		}
	}
	for name, a := range h.Apps {
		key := "apps." + name
		if name != "*" && !names.Valid(name) {
			at(key, "is not an app id: %s, or *", names.Rule)
		}
		if a.Pool != "" && !names.Valid(a.Pool) {
			at(key+".pool", "is %q: %s", a.Pool, names.Rule)
		}
		if !(a.CPUs >= 0 && a.CPUs <= 1e6) {
			at(key+".cpus", "is %v: want cores, 0 to 1000000", a.CPUs)
		}
		if !(a.Disk >= 0 && a.Disk <= 1e12) {
			at(key+".disk", "is %v: want MB, 0 to 1e12", a.Disk)
		}
	}
	b := h.BulkAPI
	if b == nil {
		if len(h.Apps) > 0 {
			at("apps", "is only for bulk_api: rows of the bus and of a file have these fields")
		}
		return ps
	}
	if b.Host == "" {
		at("bulk_api.host", "is missing: want the cloud controller's address")
	}
	if b.BatchSize < 1 || b.BatchSize > 10_000 {
		at("bulk_api.batch_size", "is %d: want 1 to 10000", b.BatchSize)
	}
	if b.PageTimeout() < 100*time.Millisecond {
		at("bulk_api.request_timeout", "is %v: want at least 100ms", b.PageTimeout())
	}
	if (b.User == "") != (b.PasswordFile == "") {
		at("bulk_api.user", "needs password_file, and password_file needs user: give both, or neither to request them on the bus")
	}
	return ps
}

func (in Intervals) problems(d document) Problems {
	var ps Problems
	for _, i := range []struct {
		key   string
		value *Seconds
		least time.Duration
	}{
		{"expected_state_update", in.ExpectedUpdate, 100 * time.Millisecond},
		{"expected_state_lost", in.ExpectedLost, 100 * time.Millisecond},
		{"droplet_lost", in.DropletLost, 100 * time.Millisecond},
		{"heartbeat_period", in.Heartbeat, 10 * time.Millisecond},
		{"nudge_keep_alive", in.KeepAlive, 100 * time.Millisecond},
		{"flapping_timeout", in.FlappingTime, time.Second},
		{"min_restart_delay", in.MinDelay, 100 * time.Millisecond},
		{"max_restart_delay", in.MaxDelay, 100 * time.Millisecond},
		{"request_queue", in.QueueEvery, 10 * time.Millisecond},
		{"nats_request_timeout", in.RequestTimeout, 100 * time.Millisecond},
		{"max_shadowing_delay", in.ShadowDelay, 100 * time.Millisecond},
		{"check_shadowing", in.CheckShadow, 100 * time.Millisecond},
	} {
		if i.value != nil && time.Duration(*i.value) < i.least {
			ps = append(ps, d.problem("intervals."+i.key, fmt.Sprintf("is %v: want at least %v", time.Duration(*i.value), i.least)))
		}
	}
	if n := in.FlappingDeath; n != nil && *n < 0 {
		ps = append(ps, d.problem("intervals.flapping_death", fmt.Sprintf("is %d: want a number of crashes, at least 0", *n)))
	}
	if n := in.QueueBatch; n != nil && (*n < 1 || *n > 1_000_000) {
		ps = append(ps, d.problem("intervals.queue_batch_size", fmt.Sprintf("is %d: want 1 to 1000000", *n)))
	}
	beat := value(in.Heartbeat, liveness.DefaultPeriod)
	lost := value(in.DropletLost, liveness.LostAfter(beat))
	if lost <= beat {
		ps = append(ps, d.problem("intervals.droplet_lost", fmt.Sprintf("is %v: want more than heartbeat_period, %v", lost, beat)))
	}
	if least, most := value(in.MinDelay, time.Minute), value(in.MaxDelay, 480*time.Second); most < least {
		ps = append(ps, d.problem("intervals.max_restart_delay", fmt.Sprintf("is %v: want at least min_restart_delay, %v", most, least)))
	}
	return ps
}

func value(s *Seconds, def time.Duration) time.Duration {
	if s == nil {
		return def
	}
	return time.Duration(*s)
}
