package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/pools"
)

// Bounds of what a pool's operators may order.
const (
	maxOrder    = 8 << 10 // bytes of one order, in JSON
	maxRemovals = 2000
	maxStale    = 200
)

// ErrTooMany: a pool has as many orders of that kind as it may.
var ErrTooMany = errors.New("the pool has too many orders of that kind")

// Orders keeps what operators want of one pool. The command line sets and takes
// back, the pool's loop reads, as an pools.OrderBook.
type Orders struct {
	bucket *bucket
	prefix string // ends in a dot
}

var _ pools.OrderBook = (*Orders)(nil)

// OpenOrders opens the orders of a pool, in the cluster's bucket.
func OpenOrders(ctx context.Context, js jetstream.JetStream, cluster, pool string) (*Orders, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := checkNames(cluster, pool); err != nil {
		return nil, fmt.Errorf("open orders: %w", err)
	}
	b, err := openBucket(ctx, js, cluster)
	if err != nil {
		return nil, err
	}
	return &Orders{bucket: b, prefix: "order." + pool + "."}, nil
}

// Read implements pools.OrderBook. It returns all that is in force or an
// error, which names every key whose value cannot be read: a pause that cannot be
// read may be a pause. Whoever gives the order anew, or takes it back, mends it.
func (o *Orders) Read(ctx context.Context, now time.Time) (pools.Orders, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	all, err := o.list(ctx)
	if err != nil {
		return pools.Orders{}, err
	}
	var orders pools.Orders
	for _, one := range all {
		if one.note.InForce(now) {
			one.add(&orders)
			continue
		}
		// One that was given anew since it was listed is newer, and stays.
		if err := o.bucket.erase(ctx, one.key, one.revision); err != nil {
			return pools.Orders{}, fmt.Errorf("end what has expired: %w", err)
		}
	}
	return inOrder(orders), nil
}

// List returns all orders, in force or not, and changes nothing: for who shows
// them, or plans without acting, by a clock that may not be the loop's.
func (o *Orders) List(ctx context.Context) (pools.Orders, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	all, err := o.list(ctx)
	if err != nil {
		return pools.Orders{}, err
	}
	var orders pools.Orders
	for _, one := range all {
		one.add(&orders)
	}
	return inOrder(orders), nil
}

// Pause has the pool left as it is. It takes the place of an earlier pause.
func (o *Orders) Pause(ctx context.Context, n pools.Note) error { return o.set(ctx, "pause", n) }

// Resume ends a pause; that there is none is no error.
func (o *Orders) Resume(ctx context.Context) error { return o.clear(ctx, "pause") }

// SetOffset adds a weight to the pool's target, in place of an earlier offset.
func (o *Orders) SetOffset(ctx context.Context, x pools.Offset) error {
	return o.set(ctx, "offset", x)
}

// ClearOffset ends an offset; that there is none is no error.
func (o *Orders) ClearOffset(ctx context.Context) error { return o.clear(ctx, "offset") }

// SetPin has a target of the pool take the place of what the signals ask for.
func (o *Orders) SetPin(ctx context.Context, p pools.Pin) error { return o.set(ctx, "pin", p) }

// ClearPin ends a pin; that there is none is no error.
func (o *Orders) ClearPin(ctx context.Context) error { return o.clear(ctx, "pin") }

// Remove has a node drained and ended. ErrTooMany if 2000 others wait for it.
func (o *Orders) Remove(ctx context.Context, r pools.Removal) error {
	if err := checkNode(r.Node); err != nil {
		return fmt.Errorf("remove a node: %w", err)
	}
	if err := o.room(ctx, "remove.", r.Node, maxRemovals); err != nil {
		return fmt.Errorf("remove node %s: %w", r.Node, err)
	}
	return o.set(ctx, "remove."+r.Node, r)
}

// Removed implements pools.OrderBook.
func (o *Orders) Removed(ctx context.Context, node string) error {
	if err := checkNode(node); err != nil {
		return fmt.Errorf("strike a removal: %w", err)
	}
	return o.clear(ctx, "remove."+node)
}

// MarkStale has the instances of a group that were launched before the mark's time
// rolled away. ErrTooMany if 200 other groups wait for it.
func (o *Orders) MarkStale(ctx context.Context, m pools.StaleMark) error {
	token, err := groupToken(m.Group)
	if err != nil {
		return fmt.Errorf("mark stale: %w", err)
	}
	if err := o.room(ctx, "stale.", token, maxStale); err != nil {
		return fmt.Errorf("mark group %s stale: %w", m.Group, err)
	}
	return o.set(ctx, "stale."+token, m)
}

// Rolled implements pools.OrderBook.
func (o *Orders) Rolled(ctx context.Context, group string) error {
	token, err := groupToken(group)
	if err != nil {
		return fmt.Errorf("strike a mark: %w", err)
	}
	return o.clear(ctx, "stale."+token)
}

// list reads all orders.
func (o *Orders) list(ctx context.Context) ([]order, error) {
	var all []order
	err := o.bucket.list(ctx, []string{o.prefix + ">"}, func(e jetstream.KeyValueEntry) error {
		one, err := decodeOrder(e.Key()[len(o.prefix):], e.Value())
		if err != nil {
			return err
		}
		one.key, one.revision = e.Key(), e.Revision()
		all = append(all, one)
		return nil
	})
	return all, err
}

// set writes an order that its reader will accept.
func (o *Orders) set(ctx context.Context, name string, order any) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	data, err := json.Marshal(order)
	if err != nil {
		return fmt.Errorf("order %s: %w", name, err)
	}
	if _, err := decodeOrder(name, data); err != nil {
		return fmt.Errorf("order %s: %w", name, err)
	}
	if _, err := o.bucket.kv.Put(ctx, o.prefix+name, data); err != nil {
		return fmt.Errorf("write %s: %w", o.prefix+name, err)
	}
	return nil
}

// clear takes an order back, whatever its value is.
func (o *Orders) clear(ctx context.Context, name string) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	e, err := o.bucket.get(ctx, o.prefix+name)
	if err != nil || e.revision == 0 {
		return err
	}
	return o.bucket.erase(ctx, o.prefix+name, e.revision)
}

// room reports ErrTooMany if there are as many orders of a kind beside that one.
func (o *Orders) room(ctx context.Context, kind, token string, limit int) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	others := 0
	err := o.bucket.list(ctx, []string{o.prefix + kind + ">"}, func(e jetstream.KeyValueEntry) error {
		if e.Key() != o.prefix+kind+token {
			others++
		}
		return nil
	})
	if err == nil && others >= limit {
		err = fmt.Errorf("%w: %d", ErrTooMany, others)
	}
	return err
}
