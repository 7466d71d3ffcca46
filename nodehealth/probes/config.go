package probes

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/netguard"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// maxWorkers is the maximum number of concurrent requests.
const maxWorkers = 256

// Config configures the HTTP requests to nodes.
type Config struct {
	// Options of the mode, with the defaults of judge.Policy.WithDefaults.
	Options judge.Options
	// Interval is the time between rounds. Each round ends within it.
	Interval time.Duration
	// Allowed are the networks whose addresses may be requested.
	Allowed netguard.Networks
	// Workers is the number of concurrent requests, at most 256; 0: as many as the round needs.
	Workers int
	// Resolve finds the addresses of a host; nil: this machine's resolver.
	Resolve netguard.Resolver
}

// Validate returns all mistakes, joined, or nil. A mistake in an option is a judge.Problem whose
// Path is the option's key.
func (c Config) Validate() error {
	o := c.Options
	if o.PollVerify == nil || o.PollErrorAsUnhealthy == nil || o.PollRetryLimit == nil || o.PollRetryInterval == nil || o.PollTimeout == nil {
		return errors.New("NODE_STATUS_POLL_URL: options have no defaults")
	}
	var errs []error
	wrong := func(key, format string, args ...any) {
		errs = append(errs, &judge.Problem{Path: key, What: fmt.Sprintf(format, args...)})
	}
	if c.Interval <= 0 || *o.PollTimeout <= 0 || *o.PollRetryLimit < 1 {
		wrong("interval", "is %v, with %d attempts of %v: want more than 0 of each", c.Interval, *o.PollRetryLimit, *o.PollTimeout)
	} else if longest := c.longest(); longest >= c.Interval {
		wrong("poll_url_retry_limit", "is %d: a node without a response then takes %v, but the interval is %v: "+
			"lower it, poll_url_timeout or poll_url_retry_interval, or raise the interval", *o.PollRetryLimit, longest, c.Interval)
	}
	if c.Workers < 0 || c.Workers > maxWorkers {
		errs = append(errs, fmt.Errorf("workers are %d: want 0 to %d", c.Workers, maxWorkers))
	}
	if len(c.Allowed) == 0 {
		errs = append(errs, errors.New("NODE_STATUS_POLL_URL has no allowed networks: add the networks of the nodes to allowed_networks"))
	}
	if _, err := regexp.Compile(o.PollHealthyResponse); err != nil {
		wrong("poll_url_healthy_response", "is not a regular expression: %v", err)
	}
	if err := checkURL(o.PollURL, c.Allowed); err != nil {
		wrong("poll_url", "is %q: %v", o.PollURL, err)
	}
	return errors.Join(errs...)
}

// longest returns how long one node without a response takes, without waiting for a worker.
func (c Config) longest() time.Duration {
	attempts := time.Duration(*c.Options.PollRetryLimit)
	return attempts*time.Duration(*c.Options.PollTimeout) + (attempts-1)*time.Duration(*c.Options.PollRetryInterval)
}

// workers returns the number of workers that so many targets need if no target responds. A target
// occupies a worker during its timeouts, not between two attempts. Half of the interval is left for
// these waits and for variation.
func (c Config) workers(targets int) int {
	if c.Workers > 0 {
		return min(c.Workers, targets)
	}
	busy := float64(*c.Options.PollRetryLimit) * float64(*c.Options.PollTimeout) * float64(targets)
	return min(max(int(busy/(float64(c.Interval)/2)), 16), maxWorkers, targets)
}

// checkURL checks a template as far as possible without a node.
func checkURL(template string, allowed netguard.Networks) error {
	sample, err := expandURL(template, Names{
		Instance: "i-1", Node: "n-1", PrivateIP: "192.0.2.1", PrivateDNS: "n-1.invalid", Zone: "z", Pool: "p", Port: 80,
	})
	if err != nil {
		return err
	}
	u, err := url.Parse(sample)
	if err != nil {
		return errors.New("is not a URL")
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if err == nil && !allowed.Allows(addr) && addr.String() != "192.0.2.1" {
		return fmt.Errorf("%v %w: want one of %v", addr, netguard.ErrOutside, allowed)
	}
	return nil
}
