package agent

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/resource"
)

// parallelAdoptions is how many copies are adopted at the same time.
const parallelAdoptions = 32

// adoption is the result of an attempt to adopt a copy.
type adoption struct {
	record
	child *supervise.Child // nil: the copy ended
	err   error
}

// adopt takes over the copies that an earlier agent left, and publishes the ends of those that ended meanwhile.
func (a *Agent) adopt(ctx context.Context, now time.Time) error {
	found, node, err := a.records.load(now)
	if err != nil && !a.cfg.Keep && !errors.Is(err, errNewer) { // the folder cannot be used: a condition of the node
		a.log.Warn("records of app instances not read", "err", err)
		return nil
	}
	if err != nil {
		return err
	}
	a.machine.cordoned, a.machine.fenced = node.Cordoned, a.machine.fenced || node.Fenced
	slices.SortFunc(found, func(x, y record) int {
		return cmp.Or(endOf(x).Compare(endOf(y)), cmp.Compare(x.Start.Instance, y.Start.Instance))
	})
	boot, err := supervise.BootID()
	if err != nil {
		return err
	}
	for _, x := range a.adoptAll(found) {
		if err := a.adoptCopy(ctx, now, x, boot); err != nil {
			return err
		}
	}
	if len(a.procs) > 0 {
		a.log.Info("app instances adopted", "instances", len(a.procs))
	}
	if a.machine.fenced {
		a.evacuate()
	}
	return nil
}

func endOf(r record) time.Time {
	if r.Ended == nil {
		return time.Time{}
	}
	return *r.Ended
}

// adoptAll attempts to adopt the running copies, several at the same time, because the search for the rest of an
// ended copy reads all processes.
func (a *Agent) adoptAll(found []record) []adoption {
	out := make([]adoption, len(found))
	slots := make(chan struct{}, parallelAdoptions)
	var wg sync.WaitGroup
	for i, r := range found {
		out[i].record = r
		if r.Ended != nil {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if r.Process == nil {
				out[i].err = a.launcher.Clear(r.Tag)
				return
			}
			out[i].child, out[i].err = a.launcher.Adopt(*r.Process, nameOf(r.Start), a.cfg.StopGrace)
		})
	}
	wg.Wait()
	return out
}

// nameOf returns the name of a copy in logs and errors.
func nameOf(r wire.StartRequest) string { return r.App + "/" + strconv.Itoa(r.Index) }

// adoptCopy adds one found copy to the machine.
func (a *Agent) adoptCopy(ctx context.Context, now time.Time, x adoption, boot string) error {
	c := &copyOf{StartRequest: x.Start, state: api.CopyRunning, since: x.Since, unready: !oldEnough(x, now), asked: x.Asked, evacuated: x.Evacuated, tag: x.Tag, process: x.Process, fetching: x.Fetching, ports: x.Ports}
	dir, err := filepath.Abs(filepath.Join(a.cfg.DataDir, c.Instance))
	if err != nil {
		return err
	}
	switch {
	case x.Ended != nil:
		a.machine.keepEnded(c)
		a.removeDropped()
		return nil
	case x.Process == nil: // the start was never acknowledged, or its release was being fetched
		if x.err != nil {
			a.log.Error("unfinished start of app instance not cleared up", "instance", c.Instance, "err", x.err)
		}
		_ = os.RemoveAll(dir) // the next start of this app instance reports the error
		if x.Fetching {
			a.resume(ctx, now, c)
			return nil
		}
		a.records.remove(c.Instance)
		return nil
	}
	a.artifacts.use(c.StartRequest, 1)
	p := &process{
		child: x.child, launcher: a.launcher, dir: dir, output: outputPath(a.cfg.DataDir, c.Instance), writer: writerTag(c), log: a.log,
	}
	a.machine.copies[c.Instance] = c
	if x.child != nil {
		a.procs[c.Instance] = p
		a.disk.set(c.Instance, c.Footprint[resource.Disk])
		a.wg.Go(func() { a.watch(p, c.Instance) })
		a.ready.watch(p, c, x.Since)
		if c.asked || c.evacuated {
			a.wg.Go(p.stop)
		}
		return nil
	}
	if !errors.Is(x.err, supervise.ErrGone) {
		return x.err
	}
	rebooted := x.Process.Boot != boot
	end := outcome{text: "ended while no agent ran", left: errors.Is(x.err, supervise.ErrSurvivors)}
	if rebooted {
		end.text = "ended with the machine"
	}
	p.clear(end)
	a.event(ctx, now, event{instance: c.Instance, end: &end}, rebooted)
	return nil
}

// oldEnough reports whether an adopted copy without a check is ready. With one, its first success shows that.
func oldEnough(x adoption, now time.Time) bool {
	return !x.Start.Ready.HasCheck() && now.Sub(x.Since) >= time.Duration(*x.Start.Ready.WithDefaults().After)
}

// resume fetches the release of an adopted copy again. If the copy has to stop, or cannot be fetched, it ends.
func (a *Agent) resume(ctx context.Context, now time.Time, c *copyOf) {
	c.state = api.CopyStarting
	a.machine.copies[c.Instance] = c
	err := a.fetch(ctx, c)
	if err == nil && !c.asked && !c.evacuated {
		return
	}
	if err == nil {
		a.artifacts.cancel(c.Instance)
		return
	}
	a.artifacts.use(c.StartRequest, 1) // its end removes one
	a.fetchedRelease(ctx, now, event{instance: c.Instance, fetched: &fetched{err: err}}, false)
}
