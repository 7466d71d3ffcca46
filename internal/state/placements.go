package state

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/placer"
)

// placementShards is the number of keys of one pool's assignments.
const placementShards = 32

// Placements stores the assignments of one pool's placer, in 32 shards. Load takes the keys over, and Save writes the
// keys that changed. A shard that does not fit one message of the bus first drops the nodes that ran copies before, then
// the copies without a node: the harmonizer requests those again.
type Placements struct{ pageStore }

var _ placer.Memory = (*Placements)(nil)

// OpenPlacements opens the assignments of a pool. Only the holder of the lease may use them; the lease may be acquired
// later.
func OpenPlacements(ctx context.Context, js jetstream.JetStream, lease *Lease, cluster, pool string) (*Placements, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := checkNames(cluster, pool); err != nil {
		return nil, fmt.Errorf("open assignments: %w", err)
	}
	b, err := openBucket(ctx, js, names.PlacerBucket(cluster, pool))
	if err != nil {
		return nil, err
	}
	return &Placements{newPageStore(b, js.Conn(), lease, "assignments")}, nil
}

// Load implements placer.Memory. It rewrites each key with the epoch of the current term, so a late Save of an earlier
// holder is refused. After an error it can be repeated. It moves an unreadable value to its aside key and logs a warning:
// the harmonizer requests again the missing parts.
func (m *Placements) Load(ctx context.Context) ([]placer.Assignments, error) {
	ctx, cancel := context.WithTimeout(ctx, takeoverTimeout)
	defer cancel()
	if err := m.turn.take(ctx); err != nil {
		return nil, fmt.Errorf("load assignments: %w", err)
	}
	defer m.turn.give()
	m.pages = nil
	if err := m.takeOver(ctx, placementPages(), placementPrefix+">"); err != nil {
		m.pages = nil
		return nil, fmt.Errorf("load assignments: %w", err)
	}
	var all []placer.Assignments
	for _, p := range m.pages {
		for app, value := range p.entries {
			a, err := decodeAssignments(app, value)
			if err != nil {
				return nil, fmt.Errorf("load assignments: %w", err)
			}
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b placer.Assignments) int { return cmp.Compare(a.App, b.App) })
	return all, nil
}

// Restored implements placer.Memory. A restore leaves a key in the bucket, which Restored removes.
func (m *Placements) Restored(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, takeoverTimeout)
	defer cancel()
	e, err := m.bucket.get(ctx, restoredKey)
	if err != nil || !e.found {
		return false, err
	}
	return true, m.bucket.erase(ctx, restoredKey, e.revision)
}

// restoredKey is the key that the restore of a backup writes into the bucket of a placer.
const restoredKey = "restored"

// Save implements placer.Memory. An error names the keys that failed; the others are written, and the next Save retries
// the failed keys. Without a Load in this term, Save returns pools.ErrNotHolder.
func (m *Placements) Save(ctx context.Context, changed []placer.Assignments) error {
	values := make(map[string]json.RawMessage, len(changed))
	for _, a := range changed {
		value, err := encodeAssignments(a)
		if err != nil {
			return fmt.Errorf("save assignments: %w", err)
		}
		values[a.App] = value
	}
	if err := m.turn.take(ctx); err != nil {
		return fmt.Errorf("save assignments: %w", err)
	}
	defer m.turn.give()
	if err := m.check(); err != nil {
		return fmt.Errorf("save assignments: %w", err)
	}
	for app, value := range values {
		m.pages[placementKey(app)].set(app, value)
	}
	if err := m.flush(ctx); err != nil {
		return fmt.Errorf("save assignments: %w", err)
	}
	return nil
}

// placementPrefix begins the keys of the shards.
const placementPrefix = "assignment."

func placementPages() map[string]*page {
	all := make(map[string]*page, placementShards)
	for shard := range uint32(placementShards) {
		key := placementPrefix + hex(shard)
		all[key] = &page{key: key, asideKey: asidePrefix + hex(shard), thin: thinAssignments, check: func(app string, value []byte) error {
			if want := placementKey(app); want != key {
				return fmt.Errorf("app %.80q belongs to %s", app, want)
			}
			_, err := decodeAssignments(app, value)
			return err
		}}
	}
	return all
}

// placementKey returns the key of an app's shard: the 32-bit FNV-1a hash of its name, modulo 32.
func placementKey(app string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(app)) // never an error
	return placementPrefix + hex(h.Sum32()%placementShards)
}

// encodeAssignments returns the encoded assignments of an app; nil for empty ones.
func encodeAssignments(a placer.Assignments) (json.RawMessage, error) {
	if err := a.Validate(); err != nil {
		return nil, err
	}
	if a.Empty() {
		return nil, nil
	}
	return json.Marshal(a)
}

func decodeAssignments(app string, value []byte) (placer.Assignments, error) {
	var a placer.Assignments
	if err := json.Unmarshal(value, &a); err != nil {
		return a, fmt.Errorf("app %.80q: %w", app, err)
	}
	if a.App != app {
		return a, fmt.Errorf("app %.80q: it belongs to app %.80q", app, a.App)
	}
	return a, a.Validate()
}

// thinAssignments drops what can be missing without harm, whatever the share.
func thinAssignments(entries map[string]json.RawMessage, _ float64) (dropped int, err error) {
	thin := func(drop func(a *placer.Assignments) int) error {
		for _, app := range slices.Sorted(maps.Keys(entries)) {
			a, err := decodeAssignments(app, entries[app])
			if err != nil {
				return err
			}
			n := drop(&a)
			if n == 0 {
				continue
			}
			dropped += n
			if entries[app], err = encodeAssignments(a); err != nil {
				return err
			}
			if entries[app] == nil {
				delete(entries, app)
			}
		}
		return nil
	}
	err = thin(func(a *placer.Assignments) (n int) { n, a.Ran = len(a.Ran), nil; return n })
	if err == nil && dropped == 0 {
		err = thin(func(a *placer.Assignments) (n int) { n, a.Wants = len(a.Wants), nil; return n })
	}
	if err == nil && dropped == 0 {
		err = fmt.Errorf("%d apps have more bookings and stops than fit a message of the bus: raise max_payload of NATS", len(entries))
	}
	return dropped, err
}
