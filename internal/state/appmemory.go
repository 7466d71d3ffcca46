package state

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// AppMemory stores the state of a harmonizer: apps in 256 shards, and a census of nodes. Load takes the keys over,
// and Save writes the keys that changed.
//
// No nudge is sent before its state is saved. So a shard or census that does not fit one message of the bus is made
// smaller. A shard drops its oldest crashes and nudges. The census drops the nodes with the fewest copies. An error
// in the log reports it.
type AppMemory struct{ pageStore }

var _ harmonizer.Memory = (*AppMemory)(nil)

// OpenAppMemory opens the harmonizer state of a cluster. Only the holder of the lease may use it; the lease may be
// acquired later.
func OpenAppMemory(ctx context.Context, js jetstream.JetStream, lease *Lease, cluster string) (*AppMemory, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if !names.Valid(cluster) {
		return nil, fmt.Errorf("open memory of apps: cluster %q: invalid name", cluster)
	}
	b, err := openBucket(ctx, js, names.HarmonizerBucket(cluster))
	if err != nil {
		return nil, err
	}
	return &AppMemory{newPageStore(b, js.Conn(), lease, "harmonizer state")}, nil
}

// Load implements harmonizer.Memory. It rewrites each key with the epoch of the current term, so a late Save of an
// earlier holder is refused. It returns all state, apps in order of name. After an error it can be repeated.
//
// Load moves an unreadable value to its aside key and logs a warning. The crashes of one app in 256 are worth less
// than a running harmonizer.
func (m *AppMemory) Load(ctx context.Context) (harmonizer.SavedState, error) {
	ctx, cancel := context.WithTimeout(ctx, takeoverTimeout)
	defer cancel()
	if err := m.turn.take(ctx); err != nil {
		return harmonizer.SavedState{}, fmt.Errorf("load memory of apps: %w", err)
	}
	defer m.turn.give()
	m.pages = nil
	if err := m.takeOver(ctx, newPages(), shardPrefix+">", nodesKey); err != nil {
		m.pages = nil
		return harmonizer.SavedState{}, fmt.Errorf("load memory of apps: %w", err)
	}
	return m.remembered(), nil
}

// remembered returns the loaded state of all pages and releases it.
func (m *AppMemory) remembered() harmonizer.SavedState {
	all := harmonizer.SavedState{Nodes: map[message.Node]int{}}
	for _, p := range m.pages {
		all.Apps = append(all.Apps, p.loaded.Apps...)
		maps.Copy(all.Nodes, p.loaded.Nodes)
		p.loaded = harmonizer.SavedState{}
	}
	slices.SortFunc(all.Apps, func(a, b apps.Memory) int { return cmp.Compare(a.App, b.App) })
	return all
}

// Save implements harmonizer.Memory. It writes the changed pages, up to 32 at the same time. An error names the keys
// that failed; the others are written, and the next Save retries the failed keys. Without a Load in this term, Save
// returns pools.ErrNotHolder. Its time limits cover the turn and the bus, not the work on large pages.
func (m *AppMemory) Save(ctx context.Context, changed []apps.Memory, nodes map[message.Node]int) error {
	values, err := encodeMemories(changed)
	if err != nil {
		return fmt.Errorf("save memory of apps: %w", err)
	}
	census, err := encodeCensus(nodes)
	if err != nil {
		return fmt.Errorf("save census of nodes: %w", err)
	}
	if err := m.turn.take(ctx); err != nil {
		return fmt.Errorf("save memory of apps: %w", err)
	}
	defer m.turn.give()
	if err := m.check(); err != nil {
		return fmt.Errorf("save memory of apps: %w", err)
	}
	for name, value := range values {
		m.pages[shardKey(name)].set(name, value)
	}
	if nodes != nil {
		m.pages[nodesKey].replace(census)
	}
	if err := m.flush(ctx); err != nil {
		return fmt.Errorf("save memory of apps: %w", err)
	}
	return nil
}
