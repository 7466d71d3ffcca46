package supervise

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
)

// Config configures a launcher.
type Config struct {
	// KeeperArgv is the command line of a process that calls Keep and exits. It starts with an absolute path. The
	// environment is the PlainEnvironment of this process, because other processes of the same user can read it.
	KeeperArgv []string

	// Log receives what a launcher cannot return: a keeper that ended, limits that are not enforced.
	Log *slog.Logger
}

// Validate returns every problem of the configuration.
func (c Config) Validate() error {
	var errs []error
	if len(c.KeeperArgv) == 0 || !filepath.IsAbs(c.KeeperArgv[0]) {
		errs = append(errs, fmt.Errorf("keeper argv %q does not begin with an absolute path", c.KeeperArgv))
	}
	if c.Log == nil {
		errs = append(errs, errors.New("no logger"))
	}
	return errors.Join(errs...)
}

// Launcher starts children. It owns the threads and the keeper that they depend on. See the package comment.
type Launcher struct {
	log        *slog.Logger
	keeperArgv []string
	outer      string // the value of TagVariable in this process's own environment
	tag        string // of everything that this launcher starts
	cgroup     cgroup // of everything that this launcher starts; empty: no cgroup
	noCgroup   error  // why there is no cgroup; set before the launcher's threads start

	plain    chan request  // to the thread that starts children that are not isolated
	isolated chan request  // to the thread that starts isolated children
	closed   chan struct{} // closed when no more children are started
	helpers  sync.WaitGroup
	scans    scans // of /proc, shared by the ends of children

	mu       sync.Mutex
	keeper   *keeper
	children map[int]*Child    // by pid; running children only, without detached ones
	detached map[*Child]bool   // running ones
	released bool              // no detached child is supervised any more
	started  int               // number of children so far
	logged   map[string]string // by child name: the unenforced limits that were last logged
}

type request struct {
	spec  Spec
	reply chan<- reply // buffer of 1
}

type reply struct {
	child *Child
	err   error
}

// NewLauncher returns a launcher. It starts no child until Run is called.
func NewLauncher(config Config) (*Launcher, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("launcher: %w", err)
	}
	if err := enoughFiles(); err != nil {
		return nil, fmt.Errorf("launcher: %w", err)
	}
	if err := closeInherited(); err != nil {
		return nil, fmt.Errorf("launcher: %w", err)
	}
	tag := rand.Text()
	cgroup, err := locateCgroup(tag)
	return &Launcher{
		log:        config.Log,
		keeperArgv: config.KeeperArgv,
		outer:      os.Getenv(TagVariable),
		tag:        tag,
		cgroup:     cgroup,
		noCgroup:   err,
		plain:      make(chan request),
		isolated:   make(chan request),
		closed:     make(chan struct{}),
		children:   make(map[int]*Child),
		detached:   make(map[*Child]bool),
		logged:     make(map[string]string),
	}, nil
}

// Run serves Start until ctx ends, then stops all children in parallel, each with its own grace period. Detached
// children run on. It returns nil
// if no process is left, and ErrSurvivors otherwise. If the keeper cannot be started, it returns an error at once. Call
// it once.
func (l *Launcher) Run(ctx context.Context) error {
	k, err := l.startKeeper()
	if err != nil {
		close(l.closed)
		l.releaseDetached()
		l.helpers.Wait()
		return err
	}
	if l.noCgroup == nil {
		l.noCgroup = l.cgroup.create()
	}
	// The threads and the keeper outlive ctx. They end after the last child.
	childless, release := context.WithCancel(context.WithoutCancel(ctx))
	var tending, accepting sync.WaitGroup
	tending.Go(func() { l.tendKeeper(childless, k) })
	accepting.Add(2)
	l.helpers.Go(func() { l.serve(ctx, childless, l.plain, accepting.Done, func() error { return nil }) })
	l.helpers.Go(func() { l.serve(ctx, childless, l.isolated, accepting.Done, isolateThread) })

	accepting.Wait()
	close(l.closed)
	l.releaseDetached()
	err = l.stopAll()
	if l.noCgroup == nil {
		err = errors.Join(err, l.cgroup.remove())
	}
	release()
	tending.Wait()
	err = errors.Join(err, l.keeper.release())
	if !errors.Is(err, ErrSurvivors) { // survivors may never end
		l.helpers.Wait()
	}
	return err
}

// Start starts a child. It waits until the launcher runs, at most until ctx ends; ctx does not affect the child. After
// the launcher has ended it returns errClosed. The caller may close the files of the spec afterwards.
func (l *Launcher) Start(ctx context.Context, spec Spec) (*Child, error) {
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	replies := make(chan reply, 1)
	thread := l.plain
	if spec.Isolated {
		thread = l.isolated
	}
	select {
	case thread <- request{spec, replies}:
	case <-l.closed:
		return nil, fmt.Errorf("start %s: %w", spec.Name, errClosed)
	case <-ctx.Done():
		return nil, fmt.Errorf("start %s: %w", spec.Name, context.Cause(ctx))
	}
	r := <-replies
	if r.err != nil {
		spec.Tail.Mark("not started: %v", r.err)
		return nil, fmt.Errorf("start %s: %w", spec.Name, r.err)
	}
	return r.child, nil
}

// serve prepares its thread and starts requested children until accept ends. Then it calls closed. It holds the thread
// until hold ends, because the kernel kills the children when the thread ends. If prepare fails, each start fails with
// that error.
func (l *Launcher) serve(accept, hold context.Context, requests <-chan request, closed func(), prepare func() error) {
	runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
	unprepared := prepare()
	for {
		select {
		case <-accept.Done():
			closed()
			<-hold.Done()
			return
		case r := <-requests:
			if unprepared != nil {
				r.reply <- reply{err: unprepared}
				continue
			}
			c, err := l.launch(r.spec)
			r.reply <- reply{c, err}
		}
	}
}

// stopAll stops all children in parallel.
func (l *Launcher) stopAll() error {
	l.mu.Lock()
	children := slices.Collect(maps.Values(l.children))
	l.mu.Unlock()
	errs := make([]error, len(children))
	var stopping sync.WaitGroup
	for i, c := range children {
		stopping.Go(func() { errs[i] = c.Stop(context.Background()) })
	}
	stopping.Wait()
	return errors.Join(errs...)
}

// nextNumber returns the number of the next child, unique in this launcher.
func (l *Launcher) nextNumber() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started++
	return strconv.Itoa(l.started)
}

// isNewlyUnenforced reports whether the unenforced limits of a child differ from those logged last.
func (l *Launcher) isNewlyUnenforced(name, unenforced string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	const most = 1000 // names; they may change with each start
	if len(l.logged) >= most {
		clear(l.logged)
	}
	before := l.logged[name]
	l.logged[name] = unenforced
	return before != unenforced
}

// enter registers a child with the keeper; leave removes it.
func (l *Launcher) enter(c *Child) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.children[c.pid] = c
	l.reportLocked(addLine, c.group.id, c.group.session, c.group.start)
}

func (l *Launcher) leave(c *Child) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.handle != nil {
		delete(l.detached, c)
		c.handle.Close()
		return
	}
	delete(l.children, c.pid)
	l.reportLocked(endLine, c.group.id)
}
