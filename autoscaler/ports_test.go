package autoscaler

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

// kept is a Memory that outlives the loops of a world.
type kept struct {
	mu     sync.Mutex
	data   []byte
	fail   error // of each load and save
	saves  int
	before func() // if set: runs before each save
}

func (k *kept) Load(context.Context) ([]byte, bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.data), k.data != nil, k.fail
}

func (k *kept) Save(_ context.Context, data []byte) error {
	if k.before != nil {
		k.before()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fail != nil {
		return k.fail
	}
	k.data = slices.Clone(data)
	k.saves++
	return nil
}

// memo returns the saved state.
func (k *kept) memo(t *testing.T) memo {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	var m memo
	if err := json.Unmarshal(k.data, &m); err != nil {
		t.Fatalf("what is kept cannot be read: %v\n%s", err, k.data)
	}
	return m
}

// book is an OrderBook.
type book struct {
	mu     sync.Mutex
	orders api.Orders
	fail   error
	struck []string
	reads  int
}

func (b *book) Read(context.Context, time.Time) (api.Orders, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reads++
	return b.orders, b.fail
}

func (b *book) Removed(_ context.Context, node string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.orders.Removals = slices.DeleteFunc(slices.Clone(b.orders.Removals), func(r api.Removal) bool { return r.Node == node })
	b.struck = append(b.struck, node)
	return b.fail
}

func (b *book) Rolled(_ context.Context, group string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.orders.Stale = slices.DeleteFunc(slices.Clone(b.orders.Stale), func(m api.StaleMark) bool { return m.Group == group })
	b.struck = append(b.struck, group)
	return b.fail
}

// change changes the orders.
func (b *book) change(do func(*api.Orders)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	do(&b.orders)
}

// lease is a lease with a fixed remaining time.
type lease struct {
	mu   sync.Mutex
	left time.Duration
}

func (l *lease) Left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left
}

func (*lease) Epoch() uint64 { return 7 }

func (l *lease) set(left time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = left
}

// provider returns the groups of a world.
type provider struct {
	w       *world
	fail    error
	missing pools.Missing
}

func (p *provider) Groups(context.Context) (pools.Listing, error) {
	out := pools.Listing{Missing: p.missing}
	for _, g := range p.w.groups {
		out.Groups = append(out.Groups, g)
	}
	return out, p.fail
}
