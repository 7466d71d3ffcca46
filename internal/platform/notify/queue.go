package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/wholefile"
)

const (
	maxQueued = 10_000         // events of a queue; more drop the oldest
	maxAge    = 24 * time.Hour // of a queued event; an older one is dropped
	suffix    = ".json"
)

// Queue stores events in a folder, one file each, until they are sent. It is safe for concurrent use. Only one Queue
// may use a folder at a time.
type Queue struct {
	dir  string
	log  *slog.Logger
	more chan struct{} // capacity 1; sent to after each Add

	mu      sync.Mutex
	numbers []uint64 // of the stored files, ascending
	next    uint64   // number of the next file
}

// OpenQueue opens the queue of a folder, which it creates if it is missing. The events of an earlier process follow first.
func OpenQueue(dir string, log *slog.Logger) (*Queue, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the queue of events: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open the queue of events: %w", err)
	}
	q := &Queue{dir: dir, log: log, more: make(chan struct{}, 1), next: 1}
	for _, e := range entries {
		text, ok := strings.CutSuffix(e.Name(), suffix)
		if number, err := strconv.ParseUint(text, 10, 64); ok && err == nil {
			q.numbers = append(q.numbers, number)
			q.next = max(q.next, number+1)
		}
	}
	slices.Sort(q.numbers)
	return q, nil
}

// add stores an event and returns how many old events it dropped for it.
func (q *Queue) add(event []byte) (dropped int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.numbers) >= maxQueued {
		if err := q.removeLocked(q.numbers[0]); err != nil {
			return dropped, err
		}
		dropped++
	}
	if err := wholefile.Write(q.path(q.next), event); err != nil {
		return dropped, fmt.Errorf("store an event: %w", err)
	}
	q.numbers = append(q.numbers, q.next)
	q.next++
	select {
	case q.more <- struct{}{}:
	default: // the sender is awake already
	}
	return dropped, nil
}

// queued is a stored event.
type queued struct {
	number uint64 // 0: no event is stored
	event  Event
	data   []byte // the event as it was stored
}

// first returns the oldest event. It sets a damaged file aside.
func (q *Queue) first() (queued, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.numbers) > 0 {
		one := queued{number: q.numbers[0]}
		var err error
		if one.data, err = os.ReadFile(q.path(one.number)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return queued{}, fmt.Errorf("read an event: %w", err)
		}
		if err == nil {
			if err = json.Unmarshal(one.data, &one.event); err == nil {
				return one, nil
			}
			var aside string
			if aside, err = wholefile.SetAside(q.path(one.number), time.Now()); err != nil {
				return queued{}, fmt.Errorf("set a damaged event aside: %w", err)
			}
			q.log.Warn("queued event is damaged, set aside", "file", aside)
		}
		q.numbers = q.numbers[1:]
	}
	return queued{}, nil
}

// remove removes an event.
func (q *Queue) remove(number uint64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.removeLocked(number)
}

func (q *Queue) removeLocked(number uint64) error {
	if err := os.Remove(q.path(number)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove an event: %w", err)
	}
	if i, found := slices.BinarySearch(q.numbers, number); found {
		q.numbers = slices.Delete(q.numbers, i, i+1)
	}
	return nil
}

// size returns the number of stored events.
func (q *Queue) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.numbers)
}

func (q *Queue) path(number uint64) string {
	return filepath.Join(q.dir, fmt.Sprintf("%020d%s", number, suffix))
}
