package bootstrap

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// streamTimeout bounds the write of one revision.
const streamTimeout = 5 * time.Second

// stream is bootstrap's end of the directory: it writes a revision to the
// autoscaler that is connected whenever something has changed.
type stream struct {
	entries  func() []Entry
	changes  chan struct{} // has room for one: a change is not yet written
	mu       sync.Mutex
	conn     net.Conn // to the present autoscaler; nil if there is none
	revision int
}

func newStream(entries func() []Entry) *stream {
	return &stream{entries: entries, changes: make(chan struct{}, 1)}
}

// wake tells that the directory may have changed. It never waits.
func (s *stream) wake() {
	select {
	case s.changes <- struct{}{}:
	default:
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
	s.wake()
	return theirs, nil
}

func (s *stream) replace(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.Close()
	}
	s.conn = conn
}

// run writes until ctx ends, then closes the connection.
func (s *stream) run(ctx context.Context) {
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
	entries := s.entries()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return
	}
	s.revision++
	line, err := json.Marshal(Directory{Revision: s.revision, Signals: entries})
	if err == nil {
		s.conn.SetWriteDeadline(time.Now().Add(streamTimeout))
		_, err = s.conn.Write(append(line, '\n'))
	}
	if err != nil {
		s.conn.Close()
		s.conn = nil
	}
}
