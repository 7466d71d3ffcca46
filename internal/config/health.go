package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/config/providers"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// Health is a pool file's node-health policy with the pool's additions.
type Health struct {
	judge.Policy `yaml:",inline"`
	// Networks are the CIDR networks that poll_url may reach. Default: private networks, and those of the pool's
	// provider.
	Networks []string `yaml:"allowed_networks" json:"allowed_networks,omitempty"`
	// Isolation is the security group without rules that NETWORK fencing moves a machine to.
	Isolation string `yaml:"isolation_security_group" json:"isolation_security_group,omitempty"`
}

// private are the networks without machines of other organizations.
const private = "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 fc00::/7"

// Allowed returns the networks that a poll_url of the pool may reach.
func (p Pool) Allowed() []netip.Prefix {
	named := strings.Fields(private)
	if k, known := p.Provider(); known {
		named = append(named, k.Networks...)
	} else { // a policy without groups: the networks of all providers
		for _, k := range providers.All() {
			named = append(named, k.Networks...)
		}
	}
	if p.Health != nil && len(p.Health.Networks) > 0 {
		named = p.Health.Networks
	}
	var out []netip.Prefix
	for _, text := range named {
		if network, err := netip.ParsePrefix(text); err == nil { // Validate has checked them
			out = append(out, network.Masked())
		}
	}
	return out
}

// HealthEnabled reports whether the pool has an enabled policy.
func (p Pool) HealthEnabled() bool {
	return p.Health != nil && (p.Health.Enabled == nil || *p.Health.Enabled)
}

// OwnsRepair reports whether Weirkeeper, not the provider, repairs the pool's machines.
func (p Pool) OwnsRepair() bool {
	if !p.HealthEnabled() {
		return false
	}
	policy := p.Health.WithDefaults()
	return policy.Mode == api.ModeAct && policy.Owner == api.OwnerSelf
}

// EventQueue returns the SQS queue of the pool's lifecycle events if the policy names one. It replaces the service
// file's queue.
func (p Pool) EventQueue() string {
	if !p.HealthEnabled() {
		return ""
	}
	mode, _ := p.Health.Detection.Mode(api.DetectLifecycleEvents)
	return mode.Options.Queue
}

// SelfFence returns how long an agent of the pool continues without contact; 0: forever.
func (p Pool) SelfFence() time.Duration {
	if !p.HealthEnabled() || p.Health.WithDefaults().Mode != api.ModeAct {
		return 0 // mode observe changes nothing
	}
	if mode, beats := p.Health.Detection.Mode(api.DetectAgentHeartbeat); beats && mode.Options.SelfFenceAfter != nil {
		return time.Duration(*mode.Options.SelfFenceAfter)
	}
	return 0
}

func (p Pool) healthProblems() Problems {
	if p.Health == nil {
		return nil
	}
	ps := p.document.policyProblems(p.Health.Validate())
	if len(ps) == 0 && len(p.Groups) > 0 { // without groups the provider is unknown
		ps = p.document.policyProblems(p.Health.WithDefaults().Fits(p.Abilities()))
	}
	for i, text := range p.Health.Networks {
		if _, err := netip.ParsePrefix(text); err != nil {
			ps = append(ps, p.document.problem(fmt.Sprintf("health.allowed_networks[%d]", i), fmt.Sprintf("is %q: want a network such as \"10.0.0.0/8\"", text)))
		}
	}
	for i, m := range p.Health.Detection.Modes {
		if what := p.disallowedNetwork(m.Options.PollURL); what != "" {
			ps = append(ps, p.document.problem(fmt.Sprintf("health.detection.detection_modes[%d].options.poll_url", i), what))
		}
	}
	if k, known := p.Provider(); known && p.Health.Isolation != "" && !k.Isolates() {
		ps = append(ps, p.document.problem("health.isolation_security_group", "is not used by groups of "+k.Name+": remove it"))
	}
	return ps
}

// disallowedNetwork returns why a poll_url is not allowed; empty if it is. An address from the node's data is checked at each
// request.
func (p Pool) disallowedNetwork(text string) string {
	if text == "" || strings.Contains(text, "{") && !strings.Contains(strings.TrimPrefix(text, "http"), "://") {
		return ""
	}
	u, err := url.Parse(strings.NewReplacer("{", "", "}", "").Replace(text))
	if err != nil {
		return "" // the policy's own check reports it
	}
	address, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return ""
	}
	var named []string
	for _, network := range p.Allowed() {
		if network.Contains(address) {
			return ""
		}
		named = append(named, network.String())
	}
	return fmt.Sprintf("leads to %s, outside the allowed networks %s: name its network in health.allowed_networks", address, strings.Join(named, ", "))
}

// HealthProblems adds file and line to problems that another check found. Each is a judge.Problem.
func (p Pool) HealthProblems(err error) error { return p.document.policyProblems(err).OrNil() }

// policyProblems adds lines to the problems of a policy.
func (d document) policyProblems(err error) Problems {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var ps Problems
		for _, one := range joined.Unwrap() {
			ps = append(ps, d.policyProblems(one)...)
		}
		return ps
	}
	if one, ok := errors.AsType[*judge.Problem](err); ok {
		return Problems{d.problem("health."+one.Path, one.What)}
	}
	return Problems{d.problem("health", err.Error())}
}

// healthWarnings returns settings of a policy that are valid but rarely intended.
func (p Pool) healthWarnings() Problems {
	if p.Health == nil {
		return nil
	}
	var ps Problems
	for _, w := range p.Health.Warnings() {
		ps = append(ps, p.document.problem("health."+w.Path, w.What))
	}
	return ps
}

// YAML returns the block of a pool file without the key "health".
func (h Health) YAML() ([]byte, error) {
	var block bytes.Buffer
	encoder := json.NewEncoder(&block)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(h); err != nil {
		return nil, fmt.Errorf("write policy: %w", err)
	}
	text, err := yaml.JSONToYAML(block.Bytes())
	if err != nil {
		return nil, fmt.Errorf("write policy: %w", err)
	}
	return text, nil
}

// HealthPolicy reads the policy of a pool file. If the file has no top-level key "health", the whole file is the
// policy. It also returns warnings about valid but rarely intended settings. The returned pool has only the keys that
// the policy needs. If the file has groups, the provider's abilities are checked. Problems name the file.
func HealthPolicy(file string, text []byte) (Pool, Problems, error) {
	p := Pool{}
	if slices.ContainsFunc(strings.Split(string(text), "\n"), func(line string) bool { return strings.HasPrefix(line, "health:") }) {
		doc, err := decode(file, text, &p)
		if err != nil {
			return Pool{}, nil, err
		}
		p.document = doc
		if p.Health == nil {
			return Pool{}, nil, Problems{doc.problem("health", "is empty")}
		}
		return p, p.healthWarnings(), p.healthProblems().OrNil()
	}
	p.Health = &Health{}
	doc, err := decode(file, text, p.Health)
	if err != nil {
		return Pool{}, nil, err
	}
	doc.above = "health."
	p.document = doc
	return p, p.healthWarnings(), p.healthProblems().OrNil()
}
