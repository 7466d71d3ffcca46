package bootstrap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// streamTimeout bounds the write of one revision.
const streamTimeout = 5 * time.Second

// stream is bootstrap's end of the directory: it writes a revision to the
// autoscaler that is connected whenever something has changed, and hears what
// the autoscaler reports.
type stream struct {
	snapshot func() Directory // without its revision; called with mu held
	hear     func(Answer)     // one of the autoscaler's answers
	log      *slog.Logger
	changes  chan struct{} // has room for one: a change is not yet written
	readers  sync.WaitGroup

	mu       sync.Mutex
	conn     net.Conn      // to the present autoscaler; nil if there is none
	config   []byte        // that conn was told last
	revision int           // of the last directory that was written
	followed int           // by the present autoscaler
	moved    chan struct{} // closed, and replaced, when conn or followed changes
}

func newStream(snapshot func() Directory, hear func(Answer), log *slog.Logger) *stream {
	return &stream{snapshot: snapshot, hear: hear, log: log, changes: make(chan struct{}, 1), moved: make(chan struct{})}
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

// present reports whether an autoscaler is connected, and how far it has
// followed; moved is closed when that changes.
func (s *stream) present() (connected bool, followed int, moved <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn != nil, s.followed, s.moved
}

// awaitFollowed waits until no autoscaler asks at a place any more that the
// revision does not list, and reports whether that is sure: not if ctx ends.
func (s *stream) awaitFollowed(ctx context.Context, revision int) bool {
	for {
		connected, followed, moved := s.present()
		if !connected || followed >= revision {
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

// replace makes conn the connection, and closes the one before.
func (s *stream) replace(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.Close()
	}
	s.conn, s.config, s.followed = conn, nil, 0
	s.movedLocked()
}

// drop closes conn, and forgets it unless it has been replaced.
func (s *stream) drop(conn net.Conn) {
	conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == conn {
		s.conn, s.config, s.followed = nil, nil, 0
		s.movedLocked()
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
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.changes:
			s.write()
		}
	}
}

// write sends one revision. An autoscaler that cannot take it is dropped: it
// ends when its stream does, and is started anew.
func (s *stream) write() {
	s.mu.Lock()
	conn := s.conn
	if conn == nil {
		s.mu.Unlock()
		return
	}
	d := s.snapshot()
	s.revision++
	d.Revision = s.revision
	if config := d.Config; bytes.Equal(config, s.config) {
		d.Config = nil
	} else {
		s.config = config
	}
	s.mu.Unlock()
	line, err := json.Marshal(d)
	if err == nil {
		conn.SetWriteDeadline(time.Now().Add(streamTimeout))
		_, err = conn.Write(append(line, '\n'))
	}
	if err != nil {
		s.drop(conn)
	}
}

// read hears an autoscaler until its connection ends. One that talks nonsense is
// dropped, as one that cannot be written to is.
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
	if errors.Is(err, errNonsense) {
		s.log.Error("autoscaler's report is not understood, the autoscaler is dropped", "err", err)
	}
	s.drop(conn)
}

// follow notes how far the autoscaler at conn has come. It cannot have followed
// what was never written.
func (s *stream) follow(conn net.Conn, revision int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	revision = min(revision, s.revision)
	if s.conn != conn || revision <= s.followed {
		return
	}
	s.followed = revision
	s.movedLocked()
}
