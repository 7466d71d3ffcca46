package authd

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/authcallout"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
)

// daemons are the keys of the daemons of pools, in a file that "weir nats init" writes. It is read again after a change, so a
// new pool needs no restart. Safe for concurrent use.
type daemons struct {
	cluster, path string

	mu      sync.Mutex
	changed time.Time // of the file that was read
	size    int64
	users   map[string]roles.User // by public nkey
}

// maxDaemonsFile bounds the file, in bytes: a thousand pools have 300 kB.
const maxDaemonsFile = 8 << 20

// user returns the daemon with that public nkey.
func (d *daemons) user(nkey string) (authcallout.User, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	info, err := os.Stat(d.path)
	if err == nil && (!info.ModTime().Equal(d.changed) || info.Size() != d.size) {
		if err = d.read(); err == nil {
			d.changed, d.size = info.ModTime(), info.Size()
		}
	}
	if err != nil {
		return authcallout.User{}, false, fmt.Errorf("auth.daemons_file: %w; copy the file that \"weir nats init\" wrote", err)
	}
	u, ok := d.users[nkey]
	if !ok {
		return authcallout.User{}, false, nil
	}
	return userOf(u), true, nil
}

func (d *daemons) read() error {
	text, err := inputfile.Read(d.path, maxDaemonsFile)
	if err != nil {
		return err
	}
	all, err := natsconf.DecodeDaemons(text)
	if err != nil {
		return fmt.Errorf("%s: %w", d.path, err)
	}
	users := map[string]roles.User{}
	for _, one := range all {
		if one.User.Cluster == d.cluster && slices.Contains([]roles.Role{roles.Pool, roles.Placer, roles.Scheduler, roles.Workflow}, one.User.Role) {
			users[one.Key] = one.User
		}
	}
	d.users = users
	return nil
}
