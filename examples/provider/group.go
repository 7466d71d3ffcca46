package folder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

// group is a pools.Group in a file. Several processes may use one file: each operation locks the
// file and replaces it atomically.
type group struct{ of selector }

// file is the content of the group's file.
type file struct {
	Target   int       `json:"target"`
	Launched int       `json:"launched"` // number of all machines so far; the id of each is NAME-NUMBER
	Machines []machine `json:"machines"`
}

type machine struct {
	ID       string    `json:"id"`
	Launched time.Time `json:"launched"`
}

// newGroup returns the group. If its file is missing, newGroup creates it with the minimum number
// of machines.
func newGroup(s selector) (*group, error) {
	if err := os.MkdirAll(s.Path, 0o755); err != nil {
		return nil, fmt.Errorf("create the folder of group %s: %w", s.Name, err)
	}
	g := &group{s}
	_, err := g.update(context.Background(), func(*file) error { return nil })
	return g, err
}

// ID implements pools.Group.
func (g *group) ID() string { return g.of.Name }

// Snapshot implements pools.Group. It first replaces machines whose records were removed, up to the
// target.
func (g *group) Snapshot(ctx context.Context) (pools.GroupSnapshot, error) {
	f, err := g.update(ctx, func(*file) error { return nil })
	if err != nil {
		return pools.GroupSnapshot{}, err
	}
	s := pools.GroupSnapshot{
		ID: g.of.Name, Kind: "folder", Target: f.Target, Min: g.of.Min, Max: g.of.Max, Instances: []pools.Instance{},
	}
	for _, m := range f.Machines {
		s.Instances = append(s.Instances, pools.Instance{
			ID: m.ID, Group: g.of.Name, Market: pools.Market{InstanceType: "record", Zone: g.of.Path},
			Weight: 1, State: api.InstanceRunning, Launched: m.Launched,
		})
	}
	return s, nil
}

// SetTarget implements pools.Group.
func (g *group) SetTarget(ctx context.Context, target int) error {
	_, err := g.update(ctx, func(f *file) error {
		if target < g.of.Min || target > g.of.Max {
			return fmt.Errorf("%w: %d is not in [%d, %d]", pools.ErrTargetBounds, target, g.of.Min, g.of.Max)
		}
		f.Target = target
		return nil
	})
	return err
}

// Terminate implements pools.Group: it removes the records.
func (g *group) Terminate(ctx context.Context, ids []string) error {
	_, err := g.update(ctx, func(f *file) error {
		for _, id := range ids {
			if !g.owned(id, f.Launched) {
				return fmt.Errorf("%w: %s", pools.ErrNotOwned, id)
			}
		}
		before := len(f.Machines)
		f.Machines = slices.DeleteFunc(f.Machines, func(m machine) bool { return slices.Contains(ids, m.ID) })
		f.Target = max(g.of.Min, f.Target-(before-len(f.Machines)))
		return nil
	})
	return err
}

// owned reports whether the id is that of one of the group's machines so far.
func (g *group) owned(id string, launched int) bool {
	number, ours := strings.CutPrefix(id, g.of.Name+"-")
	n, err := strconv.Atoi(number)
	return ours && err == nil && n >= 1 && n <= launched && strconv.Itoa(n) == number
}

// update changes the file under its lock, adds machines up to the target, and returns the content.
// If change fails, the file is not changed.
func (g *group) update(ctx context.Context, change func(*file) error) (f file, err error) {
	if err := ctx.Err(); err != nil {
		return file{}, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("group %s in %s: %w", g.of.Name, g.of.Path, err)
		}
	}()
	path := filepath.Join(g.of.Path, g.of.Name+".json")
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return file{}, err
	}
	defer lock.Close() // releases the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return file{}, err
	}
	f.Target = g.of.Min
	old, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return file{}, err
	default:
		if err := json.Unmarshal(old, &f); err != nil {
			return file{}, fmt.Errorf("%w: repair the file, or restore a copy", err)
		}
	}
	if err := change(&f); err != nil {
		return file{}, err
	}
	for len(f.Machines) < f.Target {
		f.Launched++
		f.Machines = append(f.Machines, machine{fmt.Sprintf("%s-%d", g.of.Name, f.Launched), time.Now().UTC()})
	}
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil || string(text) == string(old) {
		return f, err
	}
	return f, replace(path, text)
}

// replace writes the file atomically: a reader finds the old or the new content, also after a
// crash.
func replace(path string, text []byte) error {
	next, err := os.Create(path + ".next")
	if err != nil {
		return err
	}
	_, err = next.Write(text)
	err = errors.Join(err, next.Sync(), next.Close())
	if err != nil {
		return err
	}
	return os.Rename(path+".next", path)
}
