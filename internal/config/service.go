package config

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/agent"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/release/keyfile"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/notify"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals/builtin"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Service is the file weir.yaml, which all pools of a machine share.
type Service struct {
	NATS    bus.NATS `yaml:"nats"`
	Metrics Metrics  `yaml:"metrics"`
	// Sources are where windows of metrics come from beside the store, by the name that a metric's "source" has.
	Sources map[string]Source `yaml:"sources"`
	AWS     AWS               `yaml:"aws"`
	// Clusters are the sections of Clusterman's file, by cluster.
	Clusters     map[string]Cluster `yaml:"clusters"`
	AutoscaleSig Default            `yaml:"autoscale_signal"`
	Autoscaling  Autoscaling        `yaml:"autoscaling"`
	Releases     Releases           `yaml:"releases"`
	// SignalUsers is the range of the signals' user ids; see Service.Users.
	SignalUsers string   `yaml:"signal_users"`
	Auth        Auth     `yaml:"auth"`     // of "weir auth"
	Identity    Identity `yaml:"identity"` // of "weir agent"
	Admin       Admin    `yaml:"admin"`    // HTTP servers of the daemons
	// Notify has the targets of "weir notify".
	Notify []notify.Settings `yaml:"notify"`
	Web    Web               `yaml:"web"` // of "weir web"
	// Telemetry is where the values of each tick are sent.
	Telemetry Telemetry `yaml:"telemetry"`
	// Prices are what machines cost, for the cost of a pool; nil: it is unknown.
	Prices *Prices `yaml:"prices"`
	// Agent has what the machine of "weir agent" is and offers.
	Agent agent.Settings `yaml:"agent"`

	document document
}

// Releases selects the releases that may run, and the layout of the bucket.
type Releases struct {
	TrustedKeys      []string      `yaml:"trusted_keys"`      // minisign public keys
	RequireSignature *bool         `yaml:"require_signature"` // refuse unsigned releases; default: true with trusted keys
	Layout           string        `yaml:"layout"`            // weir (default) or clusterman
	Codename         string        `yaml:"codename"`          // layout clusterman: the folder of the tarballs
	Keep             time.Duration `yaml:"keep"`              // how long unused releases stay in the cache; default a week
}

// Cluster has the settings of one cluster.
type Cluster struct {
	Region          string `yaml:"aws_region"`
	WarningQueueURL string `yaml:"warning_queue_url"`
}

// AWS configures the buckets and groups on AWS. Credentials come from access_key_file, a JSON object of accessKeyId
// and secretAccessKey. Without it the AWS SDK's usual chain applies: environment, shared files, role.
type AWS struct {
	AccessKeyFile string `yaml:"access_key_file"`
	Region        string `yaml:"region"`
	// EndpointURL is an AWS-compatible server; empty: AWS. A {svc} in it is replaced by the service: s3, ec2,
	// autoscaling, sqs, cloudwatch.
	EndpointURL   string `yaml:"endpoint_url"`
	PathStyle     bool   `yaml:"path_style"` // bucket in the path instead of the host name
	SignalsBucket string `yaml:"signals_bucket"`
	SignalsPrefix string `yaml:"signals_prefix"`
	// WarningQueueURL is the SQS queue of EventBridge's spot interruption and rebalance warnings.
	WarningQueueURL string `yaml:"warning_queue_url"`
}

// Endpoint returns the endpoint of one service.
func (a AWS) Endpoint(service string) string {
	return strings.ReplaceAll(a.EndpointURL, "{svc}", service)
}

// RegionOf returns the AWS region of a cluster.
func (s Service) RegionOf(cluster string) string {
	return firstOf(s.Clusters[cluster].Region, s.AWS.Region)
}

// WarningQueue returns the queue of a cluster's warnings; empty: no queue.
func (s Service) WarningQueue(cluster string) string {
	return firstOf(s.Clusters[cluster].WarningQueueURL, s.AWS.WarningQueueURL)
}

// Default is the default signal. It is the fallback for every app whose own signal fails.
type Default struct {
	Name        string        `yaml:"name"` // a signal that weir ships, or one from a release
	Version     string        `yaml:"version"`
	BranchOrTag string        `yaml:"branch_or_tag"` // alias of version
	Period      time.Duration `yaml:"period"`
	PeriodMin   int           `yaml:"period_minutes"`
	TimeLimit   time.Duration `yaml:"time_limit"` // as in Signal
	Metrics     []Metric      `yaml:"required_metrics"`
	Parameters  Parameters    `yaml:"parameters"`
	Limits      Process       `yaml:"limits"`
	Environment []string      `yaml:"environment"` // names of variables passed on from bootstrap's environment
}

// Autoscaling has the numbers of a decision. A pool file overrides the service file.
type Autoscaling struct {
	DefaultSignalRole string        `yaml:"default_signal_role"` // namespace of the default signal
	Tick              time.Duration `yaml:"tick"`
	Lease             time.Duration `yaml:"lease"` // of the pool; default 15 s
	Setpoint          *float64      `yaml:"setpoint"`
	Margin            *float64      `yaml:"target_capacity_margin"`
	MarginUp          *float64      `yaml:"margin_up"`
	MarginDown        *float64      `yaml:"margin_down"`
	Excluded          []string      `yaml:"excluded_resources"`
	Combine           string        `yaml:"combine"`
	Cooldown          Cooldown      `yaml:"cooldown"`
	Budgets           []Budget      `yaml:"budgets"`
	IgnoranceMax      time.Duration `yaml:"ignorance_max"` // default: never
	Drift             string        `yaml:"drift"`         // obey (default) or correct
	LossBrake         *bool         `yaml:"prevent_scale_down_after_capacity_loss"`
	LossThreshold     int           `yaml:"instance_loss_threshold"`
	OrphanS           *int          `yaml:"orphan_instance_uptime_threshold_seconds"` // default 1800
	FailedBoots       *int          `yaml:"failed_boots"`                             // default 3; 0: no limit
	ByPriority        *bool         `yaml:"killable_nodes_prioritizing_v2"`
	Places            *bool         `yaml:"places"` // default true: the scheduler proves where copies fit
	// Distribution is how the target is spread over the groups: balanced (default) or cheapest. MaxShare is the most of the target that
	// one market gets with cheapest, above 0 and at most 1; default: no limit.
	Distribution string   `yaml:"distribution"`
	MaxShare     *float64 `yaml:"max_share"`
	// InterruptedWork is what a copy repeats after an interruption of its spot machine, at most; default 1 hour.
	InterruptedWork *time.Duration `yaml:"interrupted_work"`
	// ConfigurationGrace is how long the pool does not shrink after a part of the files left or changed; default 5 minutes.
	ConfigurationGrace *time.Duration `yaml:"configuration_grace"`
}

// Cooldown is how long after a change the target is not raised or not lowered.
type Cooldown struct {
	Up   time.Duration `yaml:"up"`
	Down time.Duration `yaml:"down"`
}

// Budget bounds the changes of one direction within a duration.
type Budget struct {
	Direction string        `yaml:"direction"` // up or down
	Within    time.Duration `yaml:"within"`
	AtMost    Amount        `yaml:"at_most"` // a weight, or a share of the target
}

// Amount is a weight, or a share in (0, 1]. The file has a number, or a text such as "10%".
type Amount struct{ Weight, Share float64 }

const amounts = `a number above 0, or a share such as "10%"`

// UnmarshalYAML reads a number or a share.
func (a *Amount) UnmarshalYAML(unmarshal func(any) error) error {
	var value any
	if err := unmarshal(&value); err != nil {
		return err
	}
	switch x := value.(type) {
	case uint64:
		*a = Amount{Weight: float64(x)}
	case float64:
		*a = Amount{Weight: x}
	case string:
		digits, ok := strings.CutSuffix(x, "%")
		percent, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
		if !ok || err != nil || !(percent > 0 && percent <= 100) {
			return &wantError{amounts}
		}
		*a = Amount{Share: percent / 100}
		return nil
	default:
		return &wantError{amounts}
	}
	if !(a.Weight > 0 && a.Weight <= math.MaxFloat64) {
		return &wantError{amounts}
	}
	return nil
}

// Reactions to a group's target that another program changed.
const (
	driftObey    = "obey"    // accept the found target
	driftCorrect = "correct" // restore the last requested target
)

// distributeBalanced is the default of autoscaling.distribution: all groups have the same level.
const distributeBalanced = "balanced"

// withDefaults returns s with defaults for missing keys.
func (s Service) withDefaults() Service {
	if s.AWS.Region == "" {
		s.AWS.Region = "us-east-1"
	}
	if s.Releases.Keep == 0 && !s.document.given("releases.keep") {
		s.Releases.Keep = 7 * 24 * time.Hour
	}
	if s.AutoscaleSig.Name == "" {
		s.AutoscaleSig.Name = "default"
	}
	if s.AutoscaleSig.Metrics == nil {
		for _, name := range []string{"cpus_allocated", "mem_allocated", "disk_allocated"} {
			s.AutoscaleSig.Metrics = append(s.AutoscaleSig.Metrics,
				Metric{Name: name, Type: "system_metrics", Range: 10 * time.Minute})
		}
	}
	if s.Autoscaling.DefaultSignalRole == "" {
		s.Autoscaling.DefaultSignalRole = "weir"
	}
	if s.Autoscaling.Setpoint == nil {
		s.Autoscaling.Setpoint = new(0.7)
	}
	if s.Autoscaling.Margin == nil {
		s.Autoscaling.Margin = new(0.1)
	}
	return s
}

// pinned returns s with the pin of the default signal if s has no default signal.
func (s Service) pinned(pins []Pin) Service {
	i := slices.IndexFunc(pins, func(p Pin) bool { return p.App == sigproto.DefaultApp })
	if i < 0 || s.AutoscaleSig.Name != "" || s.AutoscaleSig.Pin() != "" {
		return s
	}
	s.AutoscaleSig.Name, s.AutoscaleSig.Version = pins[i].Name, pins[i].Version
	s.Autoscaling.DefaultSignalRole = firstOf(s.Autoscaling.DefaultSignalRole, pins[i].Namespace)
	return s
}

// Validate returns the Problems of s.
func (s Service) Validate() error {
	d, of := s.document, "autoscale_signal"
	var ps Problems
	ps = append(ps, s.AutoscaleSig.problems(d, of)...)
	ps = append(ps, periodOf(s.AutoscaleSig.Period, s.AutoscaleSig.PeriodMin).problems(d, of)...)
	ps = append(ps, timeLimitProblems(d, of, s.AutoscaleSig.TimeLimit, s.AutoscaleSig.Every(defaultPeriod))...)
	ps = append(ps, metricProblems(d, of, s.AutoscaleSig.Metrics)...)
	ps = append(ps, s.AutoscaleSig.Parameters.problems(d, of)...)
	ps = append(ps, s.AutoscaleSig.Limits.problems(d, of+".limits")...)
	ps = append(ps, variableProblems(d, of+".environment", s.AutoscaleSig.Environment)...)
	if _, _, err := parseUsers(s.SignalUsers); err != nil {
		ps = append(ps, d.problem("signal_users", err.Error()))
	}
	ps = append(ps, s.Autoscaling.problems(d)...)
	ps = append(ps, s.Releases.problems(d)...)
	ps = append(ps, s.Auth.problems(d)...)
	ps = append(ps, s.Identity.problems(d)...)
	ps = append(ps, s.Metrics.problems(d)...)
	ps = append(ps, s.sourceProblems()...)
	ps = append(ps, natsProblems(d, s.NATS)...)
	ps = append(ps, s.Admin.problems(d)...)
	ps = append(ps, s.Web.problems(d)...)
	ps = append(ps, s.Prices.problems(d)...)
	ps = append(ps, s.Telemetry.problems(d)...)
	for _, p := range notify.CheckAll(s.Notify) {
		ps = append(ps, d.problem("notify"+p.Key, p.What))
	}
	for _, p := range s.Agent.Check() {
		ps = append(ps, d.problem("agent."+p.Key, p.What))
	}
	return ps.OrNil()
}

func (s Default) problems(d document, path string) Problems {
	why, only := onlyAdvises(s.Name)
	switch {
	case s.Version != "" && s.BranchOrTag != "":
		return Problems{d.problem(path+".version", "conflicts with branch_or_tag: keep one")}
	case s.Pin() == "" && only:
		return Problems{d.problem(path+".name", why)}
	case s.Pin() == "" && !slices.Contains(builtin.Names(), s.Name):
		return Problems{d.problem(path+".name", fmt.Sprintf("is %q: weir ships %s; of a release, the version is missing", s.Name, strings.Join(builtin.Names(), ", ")))}
	case s.Pin() != "":
		if err := (release.Ref{Namespace: "x", Name: s.Name, Version: s.Pin()}).Validate(); err != nil {
			return Problems{d.problem(path+".version", err.Error())}
		}
	}
	return nil
}

// Pin returns the pinned version from either key; empty for a signal that weir ships.
func (s Default) Pin() string {
	if s.Version != "" {
		return s.Version
	}
	return s.BranchOrTag
}

// SignatureRequired reports whether unsigned releases are refused.
func (r Releases) SignatureRequired() bool {
	if r.RequireSignature != nil {
		return *r.RequireSignature
	}
	return len(r.TrustedKeys) > 0
}

func (r Releases) problems(d document) Problems {
	var ps Problems
	at := func(key, format string, args ...any) {
		ps = append(ps, d.problem("releases."+key, fmt.Sprintf(format, args...)))
	}
	for i, key := range r.TrustedKeys {
		if _, err := keyfile.ParsePublic(key); err != nil {
			at(fmt.Sprintf("trusted_keys[%d]", i), "%v", err)
		}
	}
	clusterman := r.Layout == LayoutClusterman
	switch {
	case r.Layout != "" && r.Layout != LayoutWeir && !clusterman:
		at("layout", "is %q: want %s or %s", r.Layout, LayoutWeir, LayoutClusterman)
	case clusterman && r.Codename == "":
		at("codename", "is missing: want the folder of the tarballs in the bucket")
	case !clusterman && r.Codename != "":
		at("codename", "is only for layout %s: remove it", LayoutClusterman)
	case clusterman && r.SignatureRequired():
		at("require_signature", "cannot be set with layout %s, which has no signatures: set it to false, or remove trusted_keys", LayoutClusterman)
	}
	if r.SignatureRequired() && len(r.TrustedKeys) == 0 {
		at("require_signature", "needs trusted_keys: add the keys of the signers")
	}
	return append(ps, span{key: "keep", value: r.Keep, least: time.Minute}.problems(d, "releases")...)
}

// Layouts of a bucket.
const (
	LayoutWeir       = "weir"
	LayoutClusterman = "clusterman" // tarballs by version, without manifests
)

func (a Autoscaling) problems(d document) Problems {
	var ps Problems
	at := func(key, format string, args ...any) {
		ps = append(ps, d.problem("autoscaling."+key, fmt.Sprintf(format, args...)))
	}
	if a.Setpoint != nil && (*a.Setpoint <= 0 || *a.Setpoint > 1) {
		at("setpoint", "is %v: want above 0 and at most 1", *a.Setpoint)
	}
	for _, margin := range []struct {
		key   string
		value *float64
	}{{"target_capacity_margin", a.Margin}, {"margin_up", a.MarginUp}, {"margin_down", a.MarginDown}} {
		if margin.value != nil && (*margin.value < 0 || *margin.value >= 1) {
			at(margin.key, "is %v: want at least 0 and below 1", *margin.value)
		}
	}
	if role := a.DefaultSignalRole; role != "" && !names.Valid(role) {
		at("default_signal_role", "is %q: %s", role, names.Rule)
	}
	if c := a.Combine; c != "" && c != "sum" && c != "max" {
		at("combine", "is %q: want sum or max", c)
	}
	for i, name := range a.Excluded {
		if _, err := resource.ParseKind(name); err != nil {
			at(fmt.Sprintf("excluded_resources[%d]", i), "%v", err)
		}
	}
	if a.Drift != "" && a.Drift != driftObey && a.Drift != driftCorrect {
		at("drift", "is %q: want %s or %s", a.Drift, driftObey, driftCorrect)
	}
	if a.LossThreshold < 0 {
		at("instance_loss_threshold", "is %d: want a number of nodes of at least 0", a.LossThreshold)
	}
	if a.FailedBoots != nil && *a.FailedBoots < 0 {
		at("failed_boots", "is %d: want a number of machines of at least 0; 0 lets a group grow however many machines never join", *a.FailedBoots)
	}
	if a.OrphanS != nil && *a.OrphanS < 0 {
		at("orphan_instance_uptime_threshold_seconds", "is %d: want seconds, at least 0; 0 ignores orphans", *a.OrphanS)
	}
	if a.Distribution != "" && a.Distribution != distributeBalanced && a.Distribution != api.DistributeCheapest {
		at("distribution", "is %q: want %s or %s", a.Distribution, distributeBalanced, api.DistributeCheapest)
	}
	if x := a.MaxShare; x != nil && !(*x > 0 && *x <= 1) {
		at("max_share", "is %v: want above 0 and at most 1", *x)
	}
	if work := a.InterruptedWork; work != nil {
		ps = append(ps, span{key: "interrupted_work", value: *work}.problems(d, "autoscaling")...)
	}
	for i, b := range a.Budgets {
		ps = append(ps, b.problems(d, fmt.Sprintf("autoscaling.budgets[%d]", i))...)
	}
	ps = append(ps, span{key: "up", value: a.Cooldown.Up}.problems(d, "autoscaling.cooldown")...)
	ps = append(ps, span{key: "down", value: a.Cooldown.Down}.problems(d, "autoscaling.cooldown")...)
	ps = append(ps, span{key: "ignorance_max", value: a.IgnoranceMax}.problems(d, "autoscaling")...)
	if grace := a.ConfigurationGrace; grace != nil {
		ps = append(ps, span{key: "configuration_grace", value: *grace}.problems(d, "autoscaling")...)
	}
	if a.Lease != 0 && (a.Lease < shortestLease || a.Lease > longestLease) || a.Lease == 0 && d.given("autoscaling.lease") {
		at("lease", "is %s: want %s to %s", seconds.Short(a.Lease), seconds.Short(shortestLease), seconds.Short(longestLease))
	}
	return append(ps, span{key: "tick", value: a.Tick, least: shortestPeriod}.problems(d, "autoscaling")...)
}

// Bounds of autoscaling.lease. A busy machine loses a shorter one. A longer one leaves a pool without a holder for
// too long.
const (
	shortestLease = 3 * time.Second
	longestLease  = 5 * time.Minute
)

func (b Budget) problems(d document, path string) Problems {
	var ps Problems
	if b.Direction != string(api.DirectionUp) && b.Direction != string(api.DirectionDown) {
		ps = append(ps, d.problem(path+".direction", fmt.Sprintf("is %q: want up or down", b.Direction)))
	}
	if b.Within == 0 {
		ps = append(ps, d.problem(path+".within", "is missing: want a duration such as 10m"))
	}
	if b.AtMost == (Amount{}) {
		ps = append(ps, d.problem(path+".at_most", "is missing: want "+amounts))
	}
	return append(ps, span{key: "within", value: b.Within, least: time.Second}.problems(d, path)...)
}

// Default range of the signals' user ids. systemd's table of ids lists them as unused. They are below 65536, so
// containers have them too.
const (
	firstUser = 60706
	lastUser  = 61183
)

// noUsers is the value of signal_users that runs signals as bootstrap's user.
const noUsers = "none"

// Users returns the range of the signals' user ids. Both are 0 if signals run as bootstrap's own user.
func (s Service) Users() (first, last int) {
	first, last, _ = parseUsers(s.SignalUsers) // Validate returns the error
	return first, last
}

func parseUsers(text string) (first, last int, err error) {
	switch text {
	case "":
		return firstUser, lastUser, nil
	case noUsers:
		return 0, 0, nil
	}
	low, high, isRange := strings.Cut(text, "-")
	first, errFirst := strconv.Atoi(low)
	last, errLast := strconv.Atoi(high)
	const leastUser = 1000 // smaller ids belong to the system
	if !isRange || errFirst != nil || errLast != nil || first < leastUser || last < first || last > math.MaxInt32 {
		return 0, 0, fmt.Errorf("is %q: want a range of user ids from %d on that no account has, such as %d-%d, or %s",
			text, leastUser, firstUser, lastUser, noUsers)
	}
	return first, last, nil
}

// natsProblems returns the problems of the block "nats".
func natsProblems(d document, n bus.NATS) Problems {
	var ps Problems
	for _, p := range n.Check() {
		ps = append(ps, d.problem("nats."+p.Key, p.What))
	}
	if n.Replicas == 0 && d.given("nats.replicas") {
		ps = append(ps, d.problem("nats.replicas", "is 0: want 1 to 5"))
	}
	return ps
}

// LoadNATS returns the block "nats" of the service file below dir, which may be missing. Mistakes in other blocks are no error, so that commands reach a daemon that reports them.
func LoadNATS(dir string) (bus.NATS, error) {
	file, err := readService(dir)
	if err != nil || file.Missing {
		return bus.NATS{}, err
	}
	s, err := file.service(nil)
	if found, ok := err.(Problems); ok {
		var ours Problems
		for _, p := range found {
			if p.Key == "" || p.Key == "nats" || strings.HasPrefix(p.Key, "nats.") {
				ours = append(ours, p)
			}
		}
		err = ours.OrNil()
	}
	if err != nil {
		return bus.NATS{}, err
	}
	return s.NATS, nil
}

// below resolves the paths of the block relative to the folder of its file.
func below(n bus.NATS, file string) bus.NATS {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil { // the working directory is gone
		return n
	}
	return n.Below(dir)
}
