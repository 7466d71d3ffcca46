package state

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Bounds of what a pool's operators may order.
const (
	maxOrder    = 8 << 10 // bytes of one order, in JSON
	maxRemovals = 2000
	maxStale    = 200
)

// OpenGuard returns the guard of a pool's stored data, for the holder of the pool's lease. The guard stores the
// revisions that it has seen in a file of that folder.
func OpenGuard(js jetstream.JetStream, cluster, pool, folder, by string, log *slog.Logger) (*integrity.Guard, error) {
	if err := checkNames(cluster, pool); err != nil {
		return nil, fmt.Errorf("open guard: %w", err)
	}
	return integrity.Open(integrity.Config{
		JS: js, Bucket: names.PoolBucket(cluster, pool), Reader: integrity.PoolReader(cluster, pool),
		Filters: []string{stateKey, healthKey, leaseKey, drainPrefix + ">", orderPrefix + ">"},
		Erased:  append([]string{drainPrefix}, erasedOrders()...), Folder: folder, By: by, Log: log,
	})
}

// ErrTooMany: the pool has the maximum number of orders of that kind.
var ErrTooMany = errors.New("the pool has too many orders of that kind")

// Orders stores the operators' orders for one pool. The command line sets and clears them. The pool's loop reads them
// as a pools.OrderStore.
type Orders struct {
	bucket *bucket
	guard  *integrity.Guard // nil: revisions are not compared
}

var _ pools.OrderStore = (*Orders)(nil)

// OpenOrders opens the orders of a pool.
func OpenOrders(ctx context.Context, js jetstream.JetStream, cluster, pool string) (*Orders, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := checkNames(cluster, pool); err != nil {
		return nil, fmt.Errorf("open orders: %w", err)
	}
	b, err := openBucket(ctx, js, names.PoolBucket(cluster, pool))
	if err != nil {
		return nil, err
	}
	return &Orders{bucket: b}, nil
}

// ReadOrders returns all orders of a pool, in force or not. A pool without a bucket has no orders.
func ReadOrders(ctx context.Context, js jetstream.JetStream, cluster, pool string) (api.Orders, error) {
	o, err := OpenOrders(ctx, js, cluster, pool)
	if errors.Is(err, kvbucket.ErrMissing) {
		return api.Orders{}, nil
	}
	if err != nil {
		return api.Orders{}, err
	}
	return o.List(ctx)
}

// Guarded returns the orders for the pool's loop. Read then compares them with the revisions that the guard has seen,
// and publishes the guard's alarm. If a pause may be lost or older than before, Read returns an error. If another
// value may be, the orders have a Doubt.
func (o *Orders) Guarded(g *integrity.Guard) *Orders { return &Orders{o.bucket, g} }

// Read implements pools.OrderStore. It returns all orders in force, or an error that names every unreadable key: an
// unreadable pause may be a pause. To repair the key, give the order again or clear it.
func (o *Orders) Read(ctx context.Context, now time.Time) (api.Orders, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	all, err := o.list(ctx)
	if err != nil {
		return api.Orders{}, err
	}
	var orders api.Orders
	if o.guard != nil {
		orders.StateCreated = o.guard.Created()
	}
	if orders.LossSuspected, err = o.shrinkBlocked(); err != nil {
		return api.Orders{}, err
	}
	for _, one := range all {
		if o.unknown(one.key) {
			continue
		}
		if one.note.InForce(now) {
			one.add(&orders)
			continue
		}
		if err := o.end(ctx, one.key, one.revision); err != nil {
			return api.Orders{}, fmt.Errorf("remove expired order: %w", err)
		}
	}
	return inOrder(orders), nil
}

// List returns all orders, in force or not, and changes nothing. It is for commands that show orders or plan, whose
// clock may differ from the loop's.
func (o *Orders) List(ctx context.Context) (api.Orders, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	all, err := o.list(ctx)
	if err != nil {
		return api.Orders{}, err
	}
	var orders api.Orders
	for _, one := range all {
		one.add(&orders)
	}
	return inOrder(orders), nil
}

// Pause stops all changes of the pool. It replaces an earlier pause.
func (o *Orders) Pause(ctx context.Context, n api.Note) error { return o.set(ctx, "pause", n) }

// Resume ends a pause. Without a pause it does nothing.
func (o *Orders) Resume(ctx context.Context) error { return o.clear(ctx, "pause") }

// SetOffset adds a weight to the pool's target. It replaces an earlier offset.
func (o *Orders) SetOffset(ctx context.Context, x api.Offset) error {
	return o.set(ctx, "offset", x)
}

// ClearOffset ends an offset. Without an offset it does nothing.
func (o *Orders) ClearOffset(ctx context.Context) error { return o.clear(ctx, "offset") }

// SetPin sets a target that replaces the signals' requests.
func (o *Orders) SetPin(ctx context.Context, p api.Pin) error { return o.set(ctx, "pin", p) }

// ClearPin ends a pin. Without a pin it does nothing.
func (o *Orders) ClearPin(ctx context.Context) error { return o.clear(ctx, "pin") }

// acceptanceOrder is the name of the acceptance of a changed configuration.
const acceptanceOrder = "acceptance"

// Accept ends the hold after a change of the configuration. Its end is that of the hold.
func (o *Orders) Accept(ctx context.Context, a api.Acceptance) error {
	return o.set(ctx, acceptanceOrder, a)
}

// Remove orders that a node is drained and ended. It returns ErrTooMany if 2000 others wait.
func (o *Orders) Remove(ctx context.Context, r api.Removal) error {
	if err := checkNode(r.Node); err != nil {
		return fmt.Errorf("remove a node: %w", err)
	}
	if err := o.room(ctx, "remove.", r.Node, maxRemovals); err != nil {
		return fmt.Errorf("remove node %s: %w", r.Node, err)
	}
	return o.set(ctx, "remove."+r.Node, r)
}

// Removed implements pools.OrderStore.
func (o *Orders) Removed(ctx context.Context, node string) error {
	if err := checkNode(node); err != nil {
		return fmt.Errorf("strike a removal: %w", err)
	}
	return o.clear(ctx, "remove."+node)
}

// MarkStale orders a roll of the group's instances that were launched before the mark's time. It returns ErrTooMany
// if 200 other groups wait.
func (o *Orders) MarkStale(ctx context.Context, m api.StaleMark) error {
	token, err := GroupToken(m.Group)
	if err != nil {
		return fmt.Errorf("mark stale: %w", err)
	}
	if err := o.room(ctx, "stale.", token, maxStale); err != nil {
		return fmt.Errorf("mark group %s stale: %w", m.Group, err)
	}
	return o.set(ctx, "stale."+token, m)
}

// Names of the order of a rotation, and of its resumption.
const (
	rotateOrder = "rotate"
	resumeOrder = "resume"
)

// Rotate orders a rotation of the machines that match a condition. It replaces an earlier one.
func (o *Orders) Rotate(ctx context.Context, m api.StaleMark) error {
	return o.set(ctx, rotateOrder, m)
}

// ResumeRotation resumes the rotations after one has halted, and follows the rules again that were refused. It has an end.
func (o *Orders) ResumeRotation(ctx context.Context, n api.Note) error {
	return o.set(ctx, resumeOrder, n)
}

// Rolled implements pools.OrderStore.
func (o *Orders) Rolled(ctx context.Context, group string) error {
	if group == "" {
		return o.clear(ctx, rotateOrder)
	}
	token, err := GroupToken(group)
	if err != nil {
		return fmt.Errorf("strike a mark: %w", err)
	}
	return o.clear(ctx, "stale."+token)
}

func (o *Orders) list(ctx context.Context) ([]order, error) {
	var all []order
	visit := func(k integrity.Key) error {
		one, err := decodeOrder(k.Name[len(orderPrefix):], k.Value)
		if err != nil {
			if o.guard != nil {
				o.guard.Unreadable(k.Name, "an order", err)
			}
			return err
		}
		one.key, one.revision = k.Name, k.Revision
		all = append(all, one)
		return nil
	}
	if o.guard == nil {
		return all, o.bucket.list(ctx, 0, []string{orderPrefix + ">"}, visit)
	}
	if accepted, err := o.guard.Accepted(ctx); err != nil && !accepted {
		return nil, fmt.Errorf("read the acceptance: %w", err)
	}
	contents, err := o.guard.Read(ctx, orderPrefix+">")
	if err != nil {
		return nil, err
	}
	err = visitAll(contents.Keys, visit)
	o.guard.Publish(ctx)
	return all, err
}

func (o *Orders) unknown(key string) bool { return o.guard != nil && o.guard.IsUnknown(key) }

// shrinkBlocked returns the reason why the pool must not shrink, or an error if a pause may be lost.
func (o *Orders) shrinkBlocked() (string, error) {
	if o.guard == nil {
		return "", nil
	}
	why := ""
	for _, p := range o.guard.Problems() {
		if p.Key == orderPrefix+"pause" {
			return "", fmt.Errorf("a pause may be lost: %v; \"weir state check\" shows all", p)
		}
		why = cmp.Or(why, "stored data is damaged, lost or old: "+p.String())
	}
	return why, nil
}

// set writes an order after checking that Read accepts it.
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
	// A write over a value that the store cannot read would end all writes to the bucket.
	if _, err := o.bucket.get(ctx, orderPrefix+name); err != nil {
		return fmt.Errorf("write %s: %w", orderPrefix+name, err)
	}
	err = o.bucket.put(ctx, orderPrefix+name, data)
	if errors.Is(err, kvbucket.ErrUnknown) {
		return o.settled(ctx, name, data, err)
	}
	return err
}

// settleTimeout bounds the reading of an order whose write has no answer.
const settleTimeout = 5 * time.Second

// settled reads an order whose write has no answer. It returns nil if the order is stored. Otherwise the write may still
// be applied, so the error is not one of a failed write.
func (o *Orders) settled(ctx context.Context, name string, data []byte, unknown error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if e, err := o.bucket.get(ctx, orderPrefix+name); err == nil && e.found && bytes.Equal(e.value, data) {
		return nil
	}
	return fmt.Errorf("%w; \"weir status\" shows whether the order is in force, or give the order again", unknown)
}

// clear removes an order, whatever its value is.
func (o *Orders) clear(ctx context.Context, name string) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	e, err := o.bucket.get(ctx, orderPrefix+name)
	if err != nil || !e.found {
		return err
	}
	return o.end(ctx, orderPrefix+name, e.revision)
}

// end removes an order at a revision. A newer order stays. The marker of a pause, an offset and a pin stays, because
// without it the order would count as lost. Removals and marks are too many for markers that stay.
func (o *Orders) end(ctx context.Context, key string, revision uint64) error {
	remove := o.bucket.delete
	for _, kind := range erasedOrders() {
		if strings.HasPrefix(key, kind) {
			remove = o.bucket.erase
		}
	}
	if err := remove(ctx, key, revision); err != nil && !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return err
	}
	return nil
}

// erasedOrders returns the prefixes of orders whose marker ends.
func erasedOrders() []string { return []string{orderPrefix + "remove.", orderPrefix + "stale."} }

// room returns ErrTooMany if limit other orders of a kind exist.
func (o *Orders) room(ctx context.Context, kind, token string, limit int) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	others := 0
	err := o.bucket.list(ctx, 0, []string{orderPrefix + kind + ">"}, func(e integrity.Key) error {
		if e.Name != orderPrefix+kind+token {
			others++
		}
		return nil
	})
	if err == nil && others >= limit {
		err = fmt.Errorf("%w: %d", ErrTooMany, others)
	}
	return err
}
