package agent

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
)

const (
	diskEvery = 30 * time.Second // between two writes
	hungAfter = 30 * time.Second // how long a check may take
)

// errHung: a check of the disk does not end.
var errHung = errors.New("the check of the machine's folder does not end")

// checker checks the machine's disk, and reads the conditions of problem detectors. A hanging disk
// blocks run, and no other goroutine.
type checker struct {
	folder string
	beat   time.Duration // between two reads of the detectors' file
	disk   time.Duration // between two writes

	mu       sync.Mutex
	began    time.Time           // guarded by mu: start of the check in progress; zero: none
	own      []api.NodeCondition // guarded by mu: of the disk
	detected []api.NodeCondition // guarded by mu: of the detectors, as last read
	unread   error               // guarded by mu: error of the latest read
	again    bool                // guarded by mu: the read before failed too
}

func newChecker(cfg Config) *checker {
	return &checker{folder: cfg.DataDir, beat: cfg.Heartbeat, disk: diskEvery}
}

// run checks until ctx ends.
func (c *checker) run(ctx context.Context) {
	beat := time.NewTicker(min(c.beat, c.disk))
	defer beat.Stop()
	var written time.Time
	for {
		now := time.Now()
		due := written.IsZero() || now.Sub(written) >= c.disk
		if due {
			written = now
		}
		c.look(now, due)
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
	}
}

// look reads the detectors' file and, if write is set, writes to the disk.
func (c *checker) look(now time.Time, write bool) {
	c.mu.Lock()
	c.began = now
	own := c.own
	c.mu.Unlock()

	if write {
		own = diskConditions(checkDisk(c.folder))
	}
	detected, err := readConditions(c.folder, now)

	c.mu.Lock()
	defer c.mu.Unlock()
	c.began, c.own = time.Time{}, own
	if err == nil || errors.Is(err, errPart) {
		c.detected = wire.Keep(detected, c.detected, errors.Is(err, errUnnamed), maxDetected())
	}
	c.again = err != nil && c.unread != nil
	c.unread = err
}

// conditions returns the current conditions. An unreadable file counts after the second failed
// read, because a detector may just be writing it. Then all conditions of detectors are unknown.
func (c *checker) conditions(now time.Time) []api.NodeCondition {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := slices.Clone(c.own)
	if !c.began.IsZero() && now.Sub(c.began) >= hungAfter {
		out = diskConditions(errHung)
	}
	if out == nil {
		return nil
	}
	file := api.NodeCondition{Type: conditionFile}
	detected := slices.Clone(c.detected)
	if c.again {
		file.Unknown, file.Why = true, wire.Clip(c.unread.Error())
		for i := range detected {
			if !errors.Is(c.unread, errPart) {
				detected[i].Unknown, detected[i].Why = true, "the file of the detectors is unreadable"
			}
		}
	}
	return slices.Concat(out, []api.NodeCondition{file}, detected)
}
