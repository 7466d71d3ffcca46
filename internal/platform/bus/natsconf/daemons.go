package natsconf

import (
	"encoding/json"
	"fmt"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
)

// DaemonsFile is the name of the file with the result of Daemons, which "weir auth" reads.
const DaemonsFile = "daemons.json"

// Daemon is a key of a pool's daemon.
type Daemon struct {
	Key  string // public nkey
	User roles.User
}

// daemonLine is a daemon of a pool in the file.
type daemonLine struct {
	User       string   `json:"user"` // roles.User.Name
	Keys       []string `json:"keys"`
	Requests   []string `json:"requests,omitempty"`
	LegacyDEAs bool     `json:"legacy_deas,omitempty"`
}

// ByCallout reports whether "weir auth" verifies a user, and not the servers themselves. With a callout the servers' list of
// their own users cannot change without a restart, and pools come and go.
func (s Site) ByCallout(u roles.User) bool {
	return s.Issuer != "" && (u.Role == roles.Pool || u.Role == roles.Placer || u.Role == roles.Scheduler || u.Role == roles.Workflow)
}

// Daemons returns the daemons of all pools, for "weir auth". The site must be valid.
func (s Site) Daemons() ([]byte, error) {
	lines := []daemonLine{}
	for _, u := range s.Users() {
		if s.ByCallout(u) {
			lines = append(lines, daemonLine{u.Name(), s.Keys[u.Name()], u.Requests, u.LegacyDEAs})
		}
	}
	text, err := json.MarshalIndent(lines, "", "  ")
	return append(text, '\n'), err
}

// DecodeDaemons reads the result of Daemons.
func DecodeDaemons(text []byte) (all []Daemon, err error) {
	var lines []daemonLine
	if err := strictjson.Decode(text, &lines); err != nil {
		return nil, err
	}
	for _, line := range lines {
		u, err := roles.Parse(line.User)
		if err != nil {
			return nil, err
		}
		u.Requests, u.LegacyDEAs = line.Requests, line.LegacyDEAs
		if err := u.Validate(); err != nil {
			return nil, err
		}
		for _, key := range line.Keys {
			if !isPublicKey(key, 'U') {
				return nil, fmt.Errorf("user %s: key %.80q: want a public nkey that begins with U", line.User, key)
			}
			all = append(all, Daemon{key, u})
		}
	}
	return all, nil
}
