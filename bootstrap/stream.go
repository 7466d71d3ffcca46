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

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
)

// Time limits of the autoscaler. It follows a revision between two ticks, whatever their interval. Each step of a tick
// lasts at most 30 s, so a tick ends before followTimeout. The autoscaler sends a sign of life before each step: see
// package liveness.
const (
	signsEvery    = 5 * time.Second  // between signs of life while idle
	streamTimeout = 5 * time.Second  // to read a revision
	refreshEvery  = time.Minute      // between revisions: maximum
	followTimeout = 5 * time.Minute  // to follow a written revision
	endTimeout    = 10 * time.Second // to end after its stream has ended
	checksPerStep = 4                // per shortest of these limits
)

// stream is bootstrap's end of the directory. After each change it writes a revision to the connected autoscaler, and
// receives the autoscaler's reports. It detects an autoscaler that hangs by its missing responses.
type stream struct {
	snapshot func() Directory // without its revision; called with mu held
	receive  func(Answer)     // receives the autoscaler's answers
	hangs    func(why string) // the autoscaler hangs; its process should be ended
	log      *slog.Logger
	timeouts timeouts
	changes  chan struct{} // buffer of 1: a change has not been written
	readers  sync.WaitGroup

	mu           sync.Mutex
	present      bool          // an autoscaler may exist: from connect until gone
	conn         net.Conn      // to the current autoscaler; nil: not connected
	config       []byte        // last sent on conn
	revision     int           // last written
	followed     int           // by the current autoscaler
	written      time.Time     // when revision was written
	pendingSince time.Time     // since when a response or its end is pending; zero: not pending
	lastSign     time.Time     // last sign of life; zero: none yet
	tick         time.Duration // Plan.Tick
	checked      time.Time     // last call of check
	moved        chan struct{} // closed and replaced when present or followed changes
}

// timeouts are the time limits of a stream. hung returns the limit for signs of life for a tick.
type timeouts struct {
	take, refresh, follow, end time.Duration
	hung                       func(tick time.Duration) time.Duration
}

func defaultTimeouts() timeouts {
	return timeouts{take: streamTimeout, refresh: refreshEvery, follow: followTimeout, end: endTimeout, hung: liveness.HungAfter}
}

func newStream(snapshot func() Directory, receive func(Answer), hangs func(why string), log *slog.Logger) *stream {
	return &stream{
		snapshot: snapshot, receive: receive, hangs: hangs, log: log, timeouts: defaultTimeouts(),
		changes: make(chan struct{}, 1), moved: make(chan struct{}),
	}
}

// wake signals that the directory may have changed. It does not block.
func (s *stream) wake() {
	select {
	case s.changes <- struct{}{}:
	default:
	}
}

// announce calls wake, and returns the first revision that certainly contains all changes so far.
func (s *stream) announce() int {
	s.mu.Lock()
	next := s.revision + 1
	s.mu.Unlock()
	s.wake()
	return next
}

// progress returns whether an autoscaler may send requests, and the revision that it follows. moved is closed when
// either changes. An autoscaler whose stream was dropped counts until its process has ended.
func (s *stream) progress() (present bool, followed int, moved <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.present, s.followed, s.moved
}

// allFollowed returns the revision that every autoscaler follows. No requests go to endpoints that it does not list.
func (s *stream) allFollowed() int {
	present, followed, _ := s.progress()
	if !present {
		return math.MaxInt
	}
	return followed
}

// awaitFollowed waits until the autoscaler follows revision, or no autoscaler exists. It returns false if ctx ends
// before. The detection of a hung autoscaler bounds the wait.
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

// connect creates a pair of sockets, uses one end and returns the other. It closes an earlier connection.
func (s *stream) connect() (*os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make the directory's socket: %w", err)
	}
	childEnd := os.NewFile(uintptr(fds[1]), "directory")
	ours := os.NewFile(uintptr(fds[0]), "directory")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		childEnd.Close()
		return nil, fmt.Errorf("make the directory's socket: %w", err)
	}
	s.replace(conn)
	s.readers.Go(func() { s.read(conn) })
	s.wake()
	return childEnd, nil
}

// replace makes conn the connection and closes the previous one, whose autoscaler has ended.
func (s *stream) replace(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.Close()
	}
	s.present = conn != nil
	s.conn, s.config, s.followed, s.pendingSince, s.lastSign = conn, nil, 0, time.Time{}, time.Time{}
	s.movedLocked()
}

// expect sets the tick that determines the limit for signs of life.
func (s *stream) expect(tick time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick = tick
}

// alive returns the current autoscaler's last sign of life; nil before the first.
func (s *stream) alive() *api.Alive {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastSign.IsZero() {
		return nil
	}
	pace, a := signsEvery, api.Alive{At: s.lastSign}
	if s.tick > 0 {
		pace, a.RestartAt = min(pace, s.tick), s.lastSign.Add(s.timeouts.hung(s.tick))
	}
	a.Overdue = time.Since(s.lastSign) > liveness.OverdueAfter(pace)
	return &a
}

// gone records that the autoscaler's process has ended.
func (s *stream) gone() {
	s.mu.Lock()
	present := s.present
	s.mu.Unlock()
	if present {
		s.replace(nil)
	}
}

// drop closes conn. If it is the current connection, its autoscaler is expected to end.
func (s *stream) drop(conn net.Conn) {
	conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == conn {
		s.conn, s.config, s.followed, s.pendingSince = nil, nil, 0, time.Now()
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
	due := time.NewTicker(min(s.timeouts.refresh, s.timeouts.follow, s.timeouts.end) / checksPerStep)
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

// check ends an autoscaler that exceeds a time limit. If the autoscaler is idle, check sends it a revision, changed or
// not, so that a hung autoscaler is detected without changes.
func (s *stream) check(now time.Time) {
	s.mu.Lock()
	hung := s.timeouts.hung(s.tick)
	if !s.checked.IsZero() && !s.lastSign.IsZero() && now.Sub(s.checked) > hung/2 {
		s.lastSign = now // bootstrap itself was halted, so a missing sign of life is not the autoscaler's fault
	}
	s.checked = now
	silent := s.conn != nil && s.tick > 0 && !s.lastSign.IsZero() && now.Sub(s.lastSign) >= hung
	owed, lost := now.Sub(s.pendingSince), s.conn == nil
	pendingSince := s.present && !s.pendingSince.IsZero()
	quiet := s.conn != nil && s.pendingSince.IsZero() && now.Sub(s.written) >= s.timeouts.refresh
	s.mu.Unlock()
	switch {
	case silent:
		s.hangs(fmt.Sprintf("no sign of life for %v", hung))
	case pendingSince && lost && owed >= s.timeouts.end:
		s.hangs(fmt.Sprintf("it closed the stream of the directory and has not ended after %v", s.timeouts.end))
	case pendingSince && !lost && owed >= s.timeouts.follow:
		s.hangs(fmt.Sprintf("it followed no revision of the directory for %v", s.timeouts.follow))
	case quiet:
		s.write()
	}
}

// write sends one revision. An autoscaler that does not read it counts as hung.
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
	if s.pendingSince.IsZero() {
		s.pendingSince = s.written
	}
	if config := d.Config; bytes.Equal(config, s.config) {
		d.Config = nil
	} else {
		s.config = config
	}
	s.mu.Unlock()
	line, err := json.Marshal(d)
	if err == nil {
		conn.SetWriteDeadline(time.Now().Add(s.timeouts.take))
		_, err = conn.Write(append(line, '\n'))
	}
	if err != nil {
		s.drop(conn)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.hangs(fmt.Sprintf("it did not read a revision of the directory within %v", s.timeouts.take))
	}
}

// read reads an autoscaler's reports until its connection ends. An autoscaler that sends invalid data is ended like one
// that hangs.
func (s *stream) read(conn net.Conn) {
	err := eachLine(conn, maxReport, func(line []byte) error {
		r, err := decodeReport(line)
		if err != nil {
			return err
		}
		for _, a := range r.Answers {
			s.receive(a)
		}
		s.follow(conn, r.Revision)
		return nil
	})
	s.drop(conn)
	if errors.Is(err, errInvalidStream) {
		s.log.Error("invalid report from the autoscaler", "err", err)
		s.hangs(err.Error())
	}
}

// follow records the revision that the autoscaler at conn follows, and a sign of life. A revision cannot exceed the
// last one written.
func (s *stream) follow(conn net.Conn, revision int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == conn {
		s.lastSign = time.Now()
	}
	revision = min(revision, s.revision)
	if s.conn != conn || revision <= s.followed {
		return
	}
	s.followed, s.pendingSince = revision, time.Time{}
	if revision < s.revision {
		s.pendingSince = time.Now()
	}
	s.movedLocked()
}
