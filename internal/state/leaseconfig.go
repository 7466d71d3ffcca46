package state

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/names"
)

// LeaseConfig says which lease, and for whom.
type LeaseConfig struct {
	Cluster string
	Name    string // "pool.web", or what else may have one holder only
	// Holder names who acts. Two processes may have the same name if one starts
	// only when the other is dead: then it does not wait.
	Holder string
	TTL    time.Duration // 0: DefaultTTL
	Log    *slog.Logger
}

// Validate reports all that is wrong.
func (c LeaseConfig) Validate() error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf("lease: "+format, args...)) }
	if !names.Valid(c.Cluster) {
		bad("cluster %q is no name of a cluster", c.Cluster)
	}
	if !names.ValidKey(c.Name) {
		bad("name %.80q: want 1 to %d bytes of letters, digits and -_/=. only", c.Name, names.MaxKey)
	}
	if c.Holder == "" || len(c.Holder) > maxHolder {
		bad("holder has %d bytes: want 1 to %d", len(c.Holder), maxHolder)
	}
	if c.TTL != 0 && (c.TTL < minTTL || c.TTL > maxTTL) {
		bad("ttl %v: want %v to %v", c.TTL, minTTL, maxTTL)
	}
	if c.Log == nil {
		bad("no logger is given")
	}
	return errors.Join(problems...)
}

// complaint tells the same trouble once.
type complaint struct{ last string }

// tell logs err unless it is that of the last call; nil ends the trouble.
func (c *complaint) tell(log *slog.Logger, what, lease string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == c.last:
	case err != nil:
		log.Warn(what, "lease", lease, "err", err)
	default:
		log.Info("lease is well again", "lease", lease)
	}
	c.last = text
}
