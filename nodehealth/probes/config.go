package probes

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/netguard"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// maxWorkers bounds the requests that are under way at the same time.
const maxWorkers = 256

// Config says how nodes are asked.
type Config struct {
	// Options of the mode, as judge.Policy.WithDefaults leaves them.
	Options judge.Options
	// Interval is between rounds: each one ends within it.
	Interval time.Duration
	// Allowed are the networks whose addresses may be asked.
	Allowed netguard.Networks
	// Workers is how many requests are under way at the same time; 0: what the round
	// needs, and never more than 256.
	Workers int
	// Resolve finds the addresses of a host; nil: this machine's resolver.
	Resolve netguard.Resolver
}

// Validate returns all that is wrong, joined. What is wrong with an option is a
// judge.Problem whose Path is the option's key.
func (c Config) Validate() error {
	o := c.Options
	if o.PollVerify == nil || o.PollErrorAsUnhealthy == nil || o.PollRetryLimit == nil || o.PollRetryInterval == nil || o.PollTimeout == nil {
		return errors.New("options of NODE_STATUS_POLL_URL lack their defaults")
	}
	var errs []error
	wrong := func(key, format string, args ...any) {
		errs = append(errs, &judge.Problem{Path: key, What: fmt.Sprintf(format, args...)})
	}
	if c.Interval <= 0 || *o.PollTimeout <= 0 || *o.PollRetryLimit < 1 {
		wrong("interval", "is %v, with %d attempts of %v: want more than none of each", c.Interval, *o.PollRetryLimit, *o.PollTimeout)
	} else if longest := c.longest(); longest >= c.Interval {
		wrong("poll_url_retry_limit", "is %d: with that, a node that does not answer takes %v, and the interval is %v: "+
			"lower it, poll_url_timeout or poll_url_retry_interval, or raise the interval", *o.PollRetryLimit, longest, c.Interval)
	}
	if c.Workers < 0 || c.Workers > maxWorkers {
		errs = append(errs, fmt.Errorf("workers are %d: want 0 to %d", c.Workers, maxWorkers))
	}
	if len(c.Allowed) == 0 {
		errs = append(errs, errors.New("NODE_STATUS_POLL_URL has no allowed networks, so that nothing could be asked: name those of the nodes"))
	}
	if _, err := regexp.Compile(o.PollHealthyResponse); err != nil {
		wrong("poll_url_healthy_response", "is no regular expression: %v", err)
	}
	if err := checkURL(o.PollURL, c.Allowed); err != nil {
		wrong("poll_url", "is %q: %v", o.PollURL, err)
	}
	return errors.Join(errs...)
}

// longest is how long one node that does not answer takes, if it never waits for its
// turn.
func (c Config) longest() time.Duration {
	attempts := time.Duration(*c.Options.PollRetryLimit)
	return attempts*time.Duration(*c.Options.PollTimeout) + (attempts-1)*time.Duration(*c.Options.PollRetryInterval)
}

// workers returns how many are needed for so many targets if none of them answers:
// each takes a worker for its timeouts, and the waits in between take none. Half of
// the interval is left for them and for chance.
func (c Config) workers(targets int) int {
	if c.Workers > 0 {
		return min(c.Workers, targets)
	}
	busy := float64(*c.Options.PollRetryLimit) * float64(*c.Options.PollTimeout) * float64(targets)
	return min(max(int(busy/(float64(c.Interval)/2)), 16), maxWorkers, targets)
}

// checkURL says what is wrong with a template, as far as that shows without a node.
func checkURL(template string, allowed netguard.Networks) error {
	sample, err := Expand(template, Names{
		Instance: "i-1", Node: "n-1", PrivateIP: "192.0.2.1", PrivateDNS: "n-1.invalid", Zone: "z", Pool: "p", Port: 80,
	})
	if err != nil {
		return err
	}
	u, err := url.Parse(sample)
	if err != nil {
		return errors.New("is no URL")
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if err == nil && !allowed.Allows(addr) && addr.String() != "192.0.2.1" {
		return fmt.Errorf("%v %w: want one of %v", addr, netguard.ErrOutside, allowed)
	}
	return nil
}
