package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// turnsPerProcessor is the number of turns for each processor. An installation waits more than it computes.
const turnsPerProcessor = 3

// turnPause is the pause between two attempts to get a turn.
const turnPause = 50 * time.Millisecond

// turns lets tests that run whole installations take turns, by the processors of the machine: more of them at the same time
// would miss the deadlines of the product. All test binaries of a user share the turns. A wait for a turn has no time limit,
// because it says nothing about the tested code. A killed test binary gives its turns back. Its zero value is ready.
type turns struct {
	folder string // of the locks; empty: in the user's cache
	count  int    // 0: by the processors

	mu   sync.Mutex
	held map[string]bool // by the name of the test
}

// take waits for a turn of a test, until the test ends. A subtest shares the turn of its parent: a test with a turn waits
// for no other. The runner of "make test" reads the logged wait.
func (t *turns) take(tb testing.TB) {
	tb.Helper()
	if t.has(tb.Name()) {
		return
	}
	give, err := t.lease(tb.Context(), tb.Log)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		t.set(tb.Name(), false)
		give()
	})
	t.set(tb.Name(), true)
}

// lease waits for a turn, and logs how long. The returned function gives it back.
func (t *turns) lease(ctx context.Context, log func(...any)) (give func(), err error) {
	began := time.Now()
	file, err := t.wait(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for a turn: %w", err)
	}
	if waited := time.Since(began); waited > turnPause {
		log(fmt.Sprintf("waited %v for a turn", waited.Round(time.Millisecond)))
	}
	return func() { _ = file.Close() }, nil // it has no content
}

// has reports whether a test or a parent has a turn.
func (t *turns) has(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for !t.held[name] {
		i := strings.LastIndexByte(name, '/')
		if i < 0 {
			return false
		}
		name = name[:i]
	}
	return true
}

func (t *turns) set(name string, held bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held == nil {
		t.held = map[string]bool{}
	}
	t.held[name] = held
}

// wait returns the locked file of a turn.
func (t *turns) wait(ctx context.Context) (*os.File, error) {
	folder, count := t.folder, t.count
	if folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, err
		}
		folder = filepath.Join(cache, "weirkeeper", "turns")
	}
	if count == 0 {
		count = turnsPerProcessor * runtime.NumCPU()
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	tick := time.NewTicker(turnPause)
	defer tick.Stop()
	for {
		for i := range count {
			file, err := tryLock(filepath.Join(folder, fmt.Sprint(i)))
			if file != nil || err != nil {
				return file, err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryLock returns the locked file, or nil if another has the lock.
func tryLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return file, nil
	}
	_ = file.Close() // it has no content
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, err
}

// Never more tests have a turn than there are turns, over two binaries too: each has its own.
func TestTurnsAreBounded(t *testing.T) {
	folder := t.TempDir()
	binaries := []*turns{{folder: folder, count: 2}, {folder: folder, count: 2}}
	var now, most, ran atomic.Int64
	t.Run("all", func(t *testing.T) {
		for i := range 12 {
			t.Run("test", func(t *testing.T) {
				t.Parallel()
				binaries[i%2].take(t)
				n := now.Add(1)
				for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
					continue
				}
				<-time.After(5 * time.Millisecond)
				ran.Add(1)
				now.Add(-1)
			})
		}
	})
	if most.Load() > 2 || ran.Load() != 12 {
		t.Errorf("%d tests at the same time, and %d ran; want at most 2, and 12", most.Load(), ran.Load())
	}
}

// A test takes one turn, however many installations it and its subtests start.
func TestSubtestsShareTheTurn(t *testing.T) {
	shared := &turns{folder: t.TempDir(), count: 1}
	t.Run("parent", func(t *testing.T) {
		shared.take(t)
		shared.take(t)
		t.Run("child", func(t *testing.T) { shared.take(t) })
	})
	shared.take(t) // it was given back
}
