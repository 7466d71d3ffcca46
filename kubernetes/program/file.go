package program

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
	"github.com/weirkeeper/weirkeeper/kubernetes/adapter"
	"github.com/weirkeeper/weirkeeper/kubernetes/core"
	"github.com/weirkeeper/weirkeeper/kubernetes/kube"
	"github.com/weirkeeper/weirkeeper/kubernetes/mirror"
)

const (
	maxFile      = 1 << 20
	maxPools     = 100
	maxTemplates = 64
	mebibyte     = 1 << 20
	defaultAddr  = "127.0.0.1:9490"
	// addrOff is the address of no admin server.
	addrOff = "off"
)

// Stores of metrics.
const (
	storeEmbedded = "embedded"
	storeNone     = "none"
)

// file is the configuration. Paths are relative to its folder.
type file struct {
	Cluster    string              `yaml:"cluster"` // of Weirkeeper
	NATS       bus.NATS            `yaml:"nats"`
	Kubernetes server              `yaml:"kubernetes"`
	Pools      map[string]poolFile `yaml:"pools"`
	Period     duration            `yaml:"period"`
	Grace      duration            `yaml:"grace"`
	Stale      duration            `yaml:"stale"`
	Metrics    string              `yaml:"metrics"` // embedded or none
	// Lease: of several processes, one acts for a pool. Default true.
	Lease *bool `yaml:"lease"`
	// DeleteEnded: the Node objects of machines that have ended are deleted. Default true.
	DeleteEnded *bool `yaml:"delete_ended_nodes"`
	Admin       admin `yaml:"admin"`
}

// duration is a time as it is written, such as "10s". Empty: the default.
type duration string

// of returns the time; 0: empty, or not valid.
func (d duration) of() time.Duration {
	x, _ := time.ParseDuration(string(d))
	return x
}

// server is the API server. Without a URL it is that of the service account.
type server struct {
	Server    string `yaml:"server"`
	CAFile    string `yaml:"ca_file"`
	TokenFile string `yaml:"token_file"`
}

// admin is the HTTP server for health checks, metrics and the status.
type admin struct {
	Addr      string `yaml:"addr"`       // HOST:PORT, or off
	TokenFile string `yaml:"token_file"` // token for metrics and status; required for an address that is not loopback
}

type poolFile struct {
	Selector map[string]string `yaml:"selector"`
	Default  bool              `yaml:"default"`
	Startup  []string          `yaml:"startup_taints"`
	Machines []machine         `yaml:"machines"`
}

// machine is a machine that the pool can add, while it has no node.
type machine struct {
	Labels map[string]string `yaml:"labels"`
	Taints []taint           `yaml:"taints"`
	CPUs   float64           `yaml:"cpus"`
	Mem    float64           `yaml:"mem"`  // MB
	Disk   float64           `yaml:"disk"` // MB
	GPUs   int64             `yaml:"gpus"`
}

type taint struct {
	Key    string `yaml:"key"`
	Value  string `yaml:"value"`
	Effect string `yaml:"effect"`
}

// readFile reads and validates the configuration.
func readFile(path string) (f file, err error) {
	data, err := inputfile.Read(path, maxFile)
	if err != nil {
		return f, fmt.Errorf("read the configuration: %w", err)
	}
	if f, err = parse(data); err != nil {
		if problem, is := errors.AsType[*strictyaml.Problem](err); is {
			problem.File = path
			return f, problem
		}
		return f, err
	}
	f.resolve(filepath.Dir(path))
	if err := f.validate(); err != nil {
		return f, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// parse decodes the text of a file, without defaults. Its error is a *strictyaml.Problem.
func parse(data []byte) (f file, err error) {
	bounds := strictyaml.Bounds{Bytes: maxFile, Tokens: 50_000, Nesting: 8, TooMuch: "has more than %d words: want a shorter file", Indirect: "is an anchor, alias or tag: write the value"}
	if _, problem := strictyaml.Values(data, bounds); problem != nil {
		return f, problem
	}
	if err := yaml.UnmarshalWithOptions(data, &f, yaml.Strict()); err != nil {
		return f, strictyaml.SyntaxProblem(err)
	}
	return f, nil
}

// resolve sets defaults, and makes paths absolute.
func (f *file) resolve(dir string) {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	f.NATS = f.NATS.Below(dir)
	for _, path := range []*string{&f.Kubernetes.CAFile, &f.Kubernetes.TokenFile, &f.Admin.TokenFile} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
	f.Metrics, f.Admin.Addr = cmp.Or(f.Metrics, storeEmbedded), cmp.Or(f.Admin.Addr, defaultAddr)
	for _, flag := range []**bool{&f.DeleteEnded, &f.Lease} {
		if *flag == nil {
			*flag = new(true)
		}
	}
}

// validate returns every problem of the file.
func (f *file) validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !names.Valid(f.Cluster) {
		add("cluster %.80q: %s", f.Cluster, names.Rule)
	}
	if len(f.NATS.Servers) == 0 {
		add("nats.servers: want at least one URL, such as nats://nats.weirkeeper:4222")
	}
	for _, p := range f.NATS.Check() {
		add("nats.%w", p)
	}
	if f.Kubernetes.Server == "" && (f.Kubernetes.CAFile != "" || f.Kubernetes.TokenFile != "") {
		add("kubernetes: ca_file and token_file need server; without all three, the service account of the pod is used")
	}
	for _, t := range []struct {
		key   string
		given duration
	}{{"period", f.Period}, {"grace", f.Grace}, {"stale", f.Stale}} {
		if x, err := time.ParseDuration(string(t.given)); t.given != "" && (err != nil || x <= 0) {
			add("%s is %.40q: want a time above 0, such as 10s", t.key, string(t.given))
		}
	}
	if stale := f.Stale.of(); stale != 0 && (stale < time.Second || stale > time.Hour) {
		add("stale is %v: want 1s to 1h", stale)
	}
	if f.Metrics != storeEmbedded && f.Metrics != storeNone {
		add("metrics is %.40q: want %s or %s", f.Metrics, storeEmbedded, storeNone)
	}
	if err := f.Admin.validate(); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, f.validatePools()...)
	if c := (adapter.Config{Period: f.Period.of(), Grace: f.Grace.of(), Pools: make([]adapter.Pool, max(1, len(f.Pools)))}).WithDefaults(); c.Validate() != nil {
		errs = append(errs, c.Validate())
	}
	return errors.Join(errs...)
}

func (a admin) validate() error {
	if a.Addr == addrOff {
		return nil
	}
	host, _, err := net.SplitHostPort(a.Addr)
	if err != nil {
		return fmt.Errorf("admin.addr %.80q: want HOST:PORT, or off", a.Addr)
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) && a.TokenFile == "" {
		return fmt.Errorf("admin.addr %s is not a loopback address: give admin.token_file, which protects metrics and status", a.Addr)
	}
	return nil
}

func (f *file) validatePools() (errs []error) {
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(f.Pools) == 0 || len(f.Pools) > maxPools {
		add("pools: has %d pools, want 1 to %d", len(f.Pools), maxPools)
	}
	first, selectors := "", map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(f.Pools)) {
		p := f.Pools[name]
		if !names.Valid(name) {
			add("pools: %.80q: %s", name, names.Rule)
		}
		if p.Default && first != "" {
			add("pools.%s.default: pool %s is the default already: pods that select no pool would be counted twice", name, first)
		} else if p.Default {
			first = name
		}
		selector := fmt.Sprint(p.Selector)
		if other := selectors[selector]; other != "" && len(p.Selector) > 0 {
			add("pools.%s.selector: pool %s has the same: change one", name, other)
		}
		selectors[selector] = name
		if len(p.Machines) > maxTemplates {
			add("pools.%s.machines: has %d, want at most %d", name, len(p.Machines), maxTemplates)
		}
		for i, m := range p.Machines {
			if math.IsNaN(m.CPUs) || m.CPUs < 0.001 || m.CPUs > 1e6 {
				add("pools.%s.machines[%d].cpus is %v: want at least 0.001", name, i, m.CPUs)
			}
			if math.IsNaN(m.Mem) || m.Mem < 1 || m.Mem > 1e9 {
				add("pools.%s.machines[%d].mem is %v: want at least 1, in MB", name, i, m.Mem)
			}
			if math.IsNaN(m.Disk) || m.Disk < 0 || m.Disk > 1e9 || m.GPUs < 0 || m.GPUs > 1e6 {
				add("pools.%s.machines[%d]: disk and gpus: want at least 0", name, i)
			}
		}
	}
	return errs
}

// corePool returns the rules of a pool.
func (p poolFile) corePool(name string) core.Pool {
	out := core.Pool{Name: name, Selector: p.Selector, Default: p.Default, Startup: p.Startup}
	for _, m := range p.Machines {
		s := core.Shape{Labels: m.Labels, Sized: true, Room: core.Vector{CPU: int64(math.Round(m.CPUs * 1000)), Mem: int64(m.Mem * mebibyte), Disk: int64(m.Disk * mebibyte), GPU: m.GPUs}}
		for _, t := range m.Taints {
			s.Taints = append(s.Taints, core.Taint{Key: t.Key, Value: t.Value, Effect: cmp.Or(t.Effect, "NoSchedule")})
		}
		out.Templates = append(out.Templates, s)
	}
	return out
}

// adapter returns the settings of the adapter, without connections.
func (f *file) adapter() adapter.Config {
	c := adapter.Config{Cluster: f.Cluster, Period: f.Period.of(), Grace: f.Grace.of(), DeleteEnded: *f.DeleteEnded, Mirror: mirror.Config{Stale: f.Stale.of()}}
	for _, name := range slices.Sorted(maps.Keys(f.Pools)) {
		c.Pools = append(c.Pools, adapter.Pool{Pool: f.Pools[name].corePool(name)})
	}
	return c
}

func (s server) kube() kube.Config {
	return kube.Config{Server: s.Server, CAFile: s.CAFile, TokenFile: s.TokenFile, Agent: name}
}
