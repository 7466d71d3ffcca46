package bootstrap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/pools/liveness"
)

// How long the autoscaler may leave bootstrap without what it owes. It follows between two
// ticks, whatever the time from one to the next is, and a tick whose steps all
// last as long as they may, 30 s at most each, is over before followPatience is. A
// sign of life comes before each of these steps: see package liveness.
const (
	signsEvery     = 5 * time.Second  // between two signs of life while nothing happens
	streamTimeout  = 5 * time.Second  // to take a revision
	refreshEvery   = time.Minute      // there is a revision at least so often
	followPatience = 5 * time.Minute  // to come further with what was written
	endPatience    = 10 * time.Second // to end after its stream has
	checksPerStep  = 4                // of the shortest of these that are waited for
)

// stream is bootstrap's end of the directory: it writes a revision to the
// autoscaler that is connected whenever something has changed, and hears what
// the autoscaler reports. An autoscaler that hangs is found out by what it owes.
type stream struct {
	snapshot func() Directory // without its revision; called with mu held
	hear     func(Answer)     // one of the autoscaler's answers
	hangs    func(why string) // the autoscaler does; its process is to be ended
	log      *slog.Logger
	patience patience
	changes  chan struct{} // has room for one: a change is not yet written
	readers  sync.WaitGroup

	mu       sync.Mutex
	present  bool          // there may be an autoscaler: from connect until gone
	conn     net.Conn      // to the present autoscaler; nil if there is none
	config   []byte        // that conn was told last
	revision int           // of the last directory that was written
	followed int           // by the present autoscaler
	written  time.Time     // when revision was
	owes     time.Time     // since when it has come no further, or not ended; zero: it owes nothing
	sign     time.Time     // its latest sign of life; zero: it has not begun
	tick     time.Duration // Plan.Tick
	checked  time.Time     // by check
	moved    chan struct{} // closed, and replaced, when present or followed changes
}

// patience is how long a stream waits. hung is for a sign of life, by the tick.
type patience struct {
	take, refresh, follow, end time.Duration
	hung                       func(tick time.Duration) time.Duration
}

func defaultPatience() patience {
	return patience{take: streamTimeout, refresh: refreshEvery, follow: followPatience, end: endPatience, hung: liveness.HungAfter}
}

func newStream(snapshot func() Directory, hear func(Answer), hangs func(why string), log *slog.Logger) *stream {
	return &stream{
		snapshot: snapshot, hear: hear, hangs: hangs, log: log, patience: defaultPatience(),
		changes: make(chan struct{}, 1), moved: make(chan struct{}),
	}
}

// wake tells that the directory may have changed. It never waits.
func (s *stream) wake() {
	select {
	case s.changes <- struct{}{}:
	default:
	}
}

// announce is wake, and returns the first revision that is sure to say what has
// changed by now.
func (s *stream) announce() int {
	s.mu.Lock()
	next := s.revision + 1
	s.mu.Unlock()
	s.wake()
	return next
}

// progress reports whether there may be an autoscaler that asks, and how far it
// has followed; moved is closed when that changes. One whose stream was dropped
// asks on until its process is gone.
func (s *stream) progress() (present bool, followed int, moved <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.present, s.followed, s.moved
}

// allFollowed returns up to which revision nobody asks any more at a place that
// it does not list.
func (s *stream) allFollowed() int {
	present, followed, _ := s.progress()
	if !present {
		return math.MaxInt
	}
	return followed
}

// awaitFollowed waits until no autoscaler asks at a place any more that the
// revision does not list, and reports whether that is sure: not if ctx ends. It
// takes no longer than an autoscaler that hangs is left alone.
func (s *stream) awaitFollowed(ctx context.Context, revision int) bool {
	for {
		present, followed, moved := s.progress()
		if !present || followed >= revision {
			return true
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return false
		}
	}
}

// connect makes a new pair of sockets, takes one end for itself and returns the
// other. An earlier connection is closed.
func (s *stream) connect() (*os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make the directory's socket: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "directory")
	ours := os.NewFile(uintptr(fds[0]), "directory")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, fmt.Errorf("make the directory's socket: %w", err)
	}
	s.replace(conn)
	s.readers.Go(func() { s.read(conn) })
	s.wake()
	return theirs, nil
}

// replace makes conn the connection, and closes the one before. Who had that is
// gone.
func (s *stream) replace(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.Close()
	}
	s.present = conn != nil
	s.conn, s.config, s.followed, s.owes, s.sign = conn, nil, 0, time.Time{}, time.Time{}
	s.movedLocked()
}

// expect has signs of life expected by that tick.
func (s *stream) expect(tick time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick = tick
}

// alive returns the latest sign of life of the present autoscaler; nil before the first.
func (s *stream) alive() *Alive {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sign.IsZero() {
		return nil
	}
	pace, a := signsEvery, Alive{At: s.sign}
	if s.tick > 0 {
		pace, a.RestartAt = min(pace, s.tick), s.sign.Add(s.patience.hung(s.tick))
	}
	a.Overdue = time.Since(s.sign) > liveness.OverdueAfter(pace)
	return &a
}

// gone tells that the autoscaler's process has ended.
func (s *stream) gone() {
	s.mu.Lock()
	present := s.present
	s.mu.Unlock()
	if present {
		s.replace(nil)
	}
}

// drop closes conn, and forgets it unless it has been replaced. Its autoscaler is
// to end.
func (s *stream) drop(conn net.Conn) {
	conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == conn {
		s.conn, s.config, s.followed, s.owes = nil, nil, 0, time.Now()
	}
}

func (s *stream) movedLocked() {
	close(s.moved)
	s.moved = make(chan struct{})
}

// run writes until ctx ends, then closes the connection.
func (s *stream) run(ctx context.Context) {
	defer s.readers.Wait()
	defer s.replace(nil)
	due := time.NewTicker(min(s.patience.refresh, s.patience.follow, s.patience.end) / checksPerStep)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.changes:
			s.write()
		case now := <-due.C:
			s.check(now)
		}
	}
}

// check ends an autoscaler that owes something for too long, or gives no sign of life,
// and gives one that owes nothing a revision to follow, changed or not: so one that hangs
// is found out while nothing changes.
func (s *stream) check(now time.Time) {
	s.mu.Lock()
	hung := s.patience.hung(s.tick)
	if !s.checked.IsZero() && !s.sign.IsZero() && now.Sub(s.checked) > hung/2 {
		s.sign = now // bootstrap itself was halted: its silence is not the autoscaler's
	}
	s.checked = now
	silent := s.conn != nil && s.tick > 0 && !s.sign.IsZero() && now.Sub(s.sign) >= hung
	owed, lost := now.Sub(s.owes), s.conn == nil
	owes := s.present && !s.owes.IsZero()
	quiet := s.conn != nil && s.owes.IsZero() && now.Sub(s.written) >= s.patience.refresh
	s.mu.Unlock()
	switch {
	case silent:
		s.hangs(fmt.Sprintf("it has given no sign of life for %v", hung))
	case owes && lost && owed >= s.patience.end:
		s.hangs(fmt.Sprintf("its end of the directory's stream is closed, and %v later it has not ended", s.patience.end))
	case owes && !lost && owed >= s.patience.follow:
		s.hangs(fmt.Sprintf("it has followed no revision of the directory for %v", s.patience.follow))
	case quiet:
		s.write()
	}
}

// write sends one revision. An autoscaler that does not take it hangs.
func (s *stream) write() {
	s.mu.Lock()
	conn := s.conn
	if conn == nil {
		s.mu.Unlock()
		return
	}
	d := s.snapshot()
	s.revision++
	d.Revision, s.written = s.revision, time.Now()
	if s.owes.IsZero() {
		s.owes = s.written
	}
	if config := d.Config; bytes.Equal(config, s.config) {
		d.Config = nil
	} else {
		s.config = config
	}
	s.mu.Unlock()
	line, err := json.Marshal(d)
	if err == nil {
		conn.SetWriteDeadline(time.Now().Add(s.patience.take))
		_, err = conn.Write(append(line, '\n'))
	}
	if err != nil {
		s.drop(conn)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.hangs(fmt.Sprintf("it has not taken a revision of the directory within %v", s.patience.take))
	}
}

// read hears an autoscaler until its connection ends. One that talks nonsense is
// ended, as one that hangs is.
func (s *stream) read(conn net.Conn) {
	err := eachLine(conn, maxReport, func(line []byte) error {
		r, err := decodeReport(line)
		if err != nil {
			return err
		}
		for _, a := range r.Answers {
			s.hear(a)
		}
		s.follow(conn, r.Revision)
		return nil
	})
	s.drop(conn)
	if errors.Is(err, errNonsense) {
		s.log.Error("autoscaler's report is not understood", "err", err)
		s.hangs(err.Error())
	}
}

// follow notes how far the autoscaler at conn has come, which is a sign of life. It cannot
// have followed what was never written.
func (s *stream) follow(conn net.Conn, revision int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == conn {
		s.sign = time.Now()
	}
	revision = min(revision, s.revision)
	if s.conn != conn || revision <= s.followed {
		return
	}
	s.followed, s.owes = revision, time.Time{}
	if revision < s.revision {
		s.owes = time.Now()
	}
	s.movedLocked()
}
