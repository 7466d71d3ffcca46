// Package turns lets tests that run whole installations take turns, by the processors of the machine: more of them at the
// same time would miss the deadlines of the product.
//
//	var installations turns.Turns
//
//	func TestUp(t *testing.T) {
//		t.Parallel()
//		installations.Take(t)
//
// All test binaries of a user share the turns. A wait for a turn has no time limit, because it says nothing about the
// tested code. A killed test binary gives its turns back. A Turns is safe for concurrent use.
package turns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// perProcessor is the number of turns for each processor. An installation waits more than it computes.
const perProcessor = 3

// every is the pause between two attempts to get a turn.
const every = 50 * time.Millisecond

// Turns are the turns that the tests of a package have. Its zero value is ready.
type Turns struct {
	folder string // of the locks; empty: in the user's cache
	count  int    // 0: by the processors

	mu   sync.Mutex
	held map[string]bool // by the name of the test
}

// Take waits for a turn of a test, until the test ends. A subtest shares the turn of its parent: a test with a turn waits
// for no other. The runner of "make test" reads the logged wait.
func (t *Turns) Take(tb testing.TB) {
	tb.Helper()
	if t.has(tb.Name()) {
		return
	}
	give, err := t.Wait(tb.Context(), tb.Log)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		t.set(tb.Name(), false)
		give()
	})
	t.set(tb.Name(), true)
}

// Wait waits for a turn, and logs how long. The returned function gives it back.
func (t *Turns) Wait(ctx context.Context, log func(...any)) (give func(), err error) {
	began := time.Now()
	file, err := t.wait(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for a turn: %w", err)
	}
	if waited := time.Since(began); waited > every {
		log(fmt.Sprintf("waited %v for a turn", waited.Round(time.Millisecond)))
	}
	return func() { _ = file.Close() }, nil // it has no content
}

// has reports whether a test or a parent has a turn.
func (t *Turns) has(name string) bool {
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

func (t *Turns) set(name string, held bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held == nil {
		t.held = map[string]bool{}
	}
	t.held[name] = held
}

// wait returns the locked file of a turn.
func (t *Turns) wait(ctx context.Context) (*os.File, error) {
	folder, count := t.folder, t.count
	if folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, err
		}
		folder = filepath.Join(cache, "weirkeeper", "turns")
	}
	if count == 0 {
		count = perProcessor * runtime.NumCPU()
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	tick := time.NewTicker(every)
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
