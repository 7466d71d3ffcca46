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

// Config is what a launcher needs.
type Config struct {
	// KeeperArgv is the command line, an absolute path first, of a process that
	// calls Keep and ends. Its environment is the PlainEnvironment of this process:
	// other processes of its user can read it.
	KeeperArgv []string

	// Log tells of what a launcher cannot return: a keeper that ended, limits of a
	// child that do not hold.
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

// Launcher starts children, and owns the thread and the keeper that they depend
// on. See the package comment.
type Launcher struct {
	log        *slog.Logger
	keeperArgv []string
	outer      string // the value of TagVariable with which this process was started
	tag        string // of all that this launcher starts
	cgroup     cgroup // of all that this launcher starts; empty: it cannot be
	noCgroup   error  // why a cgroup is missing; set before the launcher's threads begin

	plain    chan request  // to the thread of children that are not isolated
	isolated chan request  // to that of the others
	closed   chan struct{} // nothing more is started
	helpers  sync.WaitGroup
	looks    looks // of the ends of children

	mu       sync.Mutex
	keeper   *keeper
	children map[int]*Child    // by pid, those that have not ended
	started  int               // children so far
	logged   map[string]string // by name of child: the limits that do not hold
}

type request struct {
	spec  Spec
	reply chan<- reply // with room for one
}

type reply struct {
	child *Child
	err   error
}

// NewLauncher returns a launcher that starts nothing until it runs.
func NewLauncher(config Config) (*Launcher, error) {
	if err := config.Validate(); err != nil {
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
		logged:     make(map[string]string),
	}, nil
}

// Run makes Start work until ctx ends, then stops all children at the same time,
// each with its own grace. It returns nil when nothing of them is left,
// ErrSurvivors when something is, and an error at once when no keeper can be
// started. It is called once.
func (l *Launcher) Run(ctx context.Context) error {
	k, err := l.startKeeper()
	if err != nil {
		close(l.closed)
		l.helpers.Wait()
		return err
	}
	if l.noCgroup == nil {
		l.noCgroup = l.cgroup.create()
	}
	// The threads and the keeper outlive ctx: as long as there are children.
	childless, release := context.WithCancel(context.WithoutCancel(ctx))
	var tending, accepting sync.WaitGroup
	tending.Go(func() { l.tendKeeper(childless, k) })
	accepting.Add(2)
	l.helpers.Go(func() { l.serve(ctx, childless, l.plain, accepting.Done, func() error { return nil }) })
	l.helpers.Go(func() { l.serve(ctx, childless, l.isolated, accepting.Done, isolateThread) })

	accepting.Wait()
	close(l.closed)
	err = l.stopAll()
	if l.noCgroup == nil {
		err = errors.Join(err, l.cgroup.remove())
	}
	release()
	tending.Wait()
	err = errors.Join(err, l.keeper.release())
	if !errors.Is(err, ErrSurvivors) { // a survivor's end may never come
		l.helpers.Wait()
	}
	return err
}

// Start starts a child. It waits until the launcher runs, at most until ctx ends,
// which has no other influence on the child. After the launcher's end it
// returns ErrClosed. The files of the spec may be closed when it has returned.
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
		return nil, fmt.Errorf("start %s: %w", spec.Name, ErrClosed)
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

// serve prepares its thread and starts what is requested until accept ends; then it calls
// closed. It holds the thread, at whose end the kernel kills the children, until hold ends.
// If the thread cannot be prepared, each start fails with that error.
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

// stopAll stops all children at the same time.
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

// nextNumber returns what tells the next child from the others.
func (l *Launcher) nextNumber() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started++
	return strconv.Itoa(l.started)
}

// isNews reports whether what is unenforced of a child differs from what was logged last.
func (l *Launcher) isNews(name, unenforced string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	const most = 1000 // names, which may change with each start
	if len(l.logged) >= most {
		clear(l.logged)
	}
	before := l.logged[name]
	l.logged[name] = unenforced
	return before != unenforced
}

// enter makes a child known to the keeper, leave ends that.
func (l *Launcher) enter(c *Child) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.children[c.pid] = c
	l.tellLocked(addLine, c.group.id, c.group.session, c.group.start)
}

func (l *Launcher) leave(c *Child) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.children, c.pid)
	l.tellLocked(endLine, c.group.id)
}
