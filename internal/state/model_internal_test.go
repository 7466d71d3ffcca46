package state

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
)

// model is a bucket in memory. It keeps each change, so that a reader may be given the bucket
// as it was some changes ago: replicas of a real bucket lag behind.
type model struct {
	mu      sync.Mutex
	last    uint64 // sequence of the newest write
	changes int    // writes and markers: the same number
	keys    map[string][]version
}

// version is what a key has from a change on.
type version struct {
	change int
	entry  entry // found is false: the key was erased
	by     any   // the writer
	at     time.Time
}

func newModel() *model { return &model{keys: map[string][]version{}} }

// atLocked returns what a key had behind changes ago.
func (m *model) atLocked(key string, behind int) version {
	for _, v := range slices.Backward(m.keys[key]) {
		if v.change <= m.changes-behind {
			return v
		}
	}
	return version{}
}

func (m *model) addLocked(key string, e entry, by any) {
	m.changes++
	m.keys[key] = append(m.keys[key], version{m.changes, e, by, time.Now()})
}

// read returns what a key had behind changes ago.
func (m *model) read(key string, behind int) version {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.atLocked(key, behind)
}

// write writes over a revision, and no other.
func (m *model) write(key string, value []byte, revision uint64, by any) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.atLocked(key, 0).entry.revision != revision {
		return 0, fmt.Errorf("write %s: %w", key, jetstream.ErrKeyRevisionMismatch)
	}
	m.last++
	m.addLocked(key, entry{revision: m.last, value: bytes.Clone(value), found: true}, by)
	return m.last, nil
}

// remove writes a delete marker over a revision, and no other.
func (m *model) remove(key string, revision uint64, by any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.atLocked(key, 0).entry.revision != revision {
		return fmt.Errorf("delete %s: %w", key, jetstream.ErrKeyRevisionMismatch)
	}
	m.last++
	m.addLocked(key, entry{revision: m.last}, by)
	return nil
}

// contents returns the keys that the filters match, in order of revision. Each filter is listed, and each value read,
// as it was some changes ago. No listing is older than the write of that sequence.
func (m *model) contents(filters []string, sequence uint64, lag func() int) (all []integrity.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range filters {
		prefix, wild := strings.CutSuffix(f, ">")
		listed := min(lag(), m.changes-int(sequence))
		for _, key := range slices.Sorted(maps.Keys(m.keys)) {
			if key != f && (!wild || !strings.HasPrefix(key, prefix)) || m.atLocked(key, listed).entry.revision == 0 {
				continue
			}
			behind := lag()
			for m.atLocked(key, behind).entry.revision == 0 { // a listed key is read until a replica has it
				behind--
			}
			if e := m.atLocked(key, behind).entry; e.found {
				all = append(all, integrity.Key{Name: key, Revision: e.revision, Value: e.value})
			}
		}
	}
	slices.SortFunc(all, func(a, b integrity.Key) int { return cmp.Compare(a.Revision, b.Revision) })
	return all
}

// near is the model as a store that answers at once.
type near struct{ model *model }

var _ store = near{}

func (n near) get(_ context.Context, key string) (entry, error) {
	return n.model.read(key, 0).entry, nil
}

func (n near) update(_ context.Context, key string, value []byte, revision uint64) (uint64, error) {
	return n.model.write(key, value, revision, nil)
}

func (n near) erase(_ context.Context, key string, revision uint64) error {
	return n.model.remove(key, revision, nil)
}

func (n near) sequence(context.Context) (uint64, error) {
	n.model.mu.Lock()
	defer n.model.mu.Unlock()
	return n.model.last, nil
}

func (n near) list(_ context.Context, sequence uint64, filters []string, visit func(integrity.Key) error) error {
	return visitAll(n.model.contents(filters, sequence, func() int { return 0 }), visit)
}

// TestModelIsABucket makes the same random calls to the model and to a bucket of a real server:
// what they return is the same, revisions and errors included.
func TestModelIsABucket(t *testing.T) {
	b, err := bus.Open(t.Context(), bus.Config{Data: t.TempDir(), Name: t.Name(), Log: slog.New(slog.DiscardHandler), Serve: natsserver.Serve})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	bustest.Streams(t, b.JetStream(), "here", 1, "web")
	real, err := openBucket(t.Context(), b.JetStream(), "weir-pool:here:web")
	if err != nil {
		t.Fatal(err)
	}
	m := near{newModel()}
	schema, err := real.get(t.Context(), "schema")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.update(t.Context(), "schema", schema.value, 0); err != nil {
		t.Fatal(err)
	}
	keys := []string{"schema", "lease", "state", "drain.a-1", "drain.a-2", "drain.webs.a-1"}
	r := rand.New(rand.NewPCG(1, 2))
	mismatches, writes := 0, 0
	for i := range 600 {
		key := keys[r.IntN(len(keys))]
		was, err := m.get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		revision := was.revision
		if r.IntN(4) == 0 {
			revision = r.Uint64N(m.model.last + 2)
		}
		what, wrong := "", ""
		switch r.IntN(5) {
		case 0:
			what = "get " + key
			got, err := real.get(t.Context(), key)
			if err != nil || got.revision != was.revision || got.found != was.found || !bytes.Equal(got.value, was.value) {
				wrong = fmt.Sprintf("%+v, %v, the model %+v", got, err, was)
			}
		case 1, 2:
			what = fmt.Sprintf("update %s over %d", key, revision)
			value := fmt.Append(nil, "value ", i)
			got, err := real.update(t.Context(), key, value, revision)
			want, errWant := m.update(t.Context(), key, value, revision)
			mismatch := errors.Is(errWant, jetstream.ErrKeyRevisionMismatch)
			if got != want || (err == nil) != (errWant == nil) || errors.Is(err, jetstream.ErrKeyRevisionMismatch) != mismatch {
				wrong = fmt.Sprintf("%d, %v, the model %d, %v", got, err, want, errWant)
			}
			if writes++; mismatch {
				mismatches++
			}
		case 3:
			what = fmt.Sprintf("erase %s over %d", key, revision)
			err, want := real.erase(t.Context(), key, revision), m.erase(t.Context(), key, revision)
			if (err == nil) != (want == nil) || errors.Is(err, jetstream.ErrKeyRevisionMismatch) != (want != nil) {
				wrong = fmt.Sprintf("%v, the model %v", err, want)
			}
		case 4:
			what = "list and sequence"
			got, want := listing(t, real), listing(t, m)
			last, err := real.sequence(t.Context())
			if !slices.Equal(got, want) || err != nil || last != m.model.last {
				wrong = fmt.Sprintf("%q at %d, %v, the model %q at %d", got, last, err, want, m.model.last)
			}
		}
		if wrong != "" {
			t.Fatalf("call %d: %s: %s", i, what, wrong)
		}
	}
	if mismatches < 20 || writes-mismatches < 100 {
		t.Errorf("%d of %d writes met another revision: the test shows nothing", mismatches, writes)
	}
}

// listing returns the drain records and the lease of a pool, one text each.
func listing(t *testing.T, s store) (all []string) {
	t.Helper()
	err := s.list(t.Context(), 0, []string{"drain.>", "lease"}, func(k integrity.Key) error {
		all = append(all, fmt.Sprintf("%s %d %s", k.Name, k.Revision, k.Value))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
