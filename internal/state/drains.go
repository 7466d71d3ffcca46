package state

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// Drains keeps the drain records of one pool in the cluster's bucket, each under
// "drain.<pool>.<node>".
type Drains struct {
	kv     jetstream.KeyValue
	prefix string // ends in a dot
}

var _ drain.Records = (*Drains)(nil)

// OpenDrains opens the drain records of a pool, in the cluster's bucket.
func OpenDrains(ctx context.Context, js jetstream.JetStream, cluster, pool string) (*Drains, error) {
	if err := checkNames(cluster, pool); err != nil {
		return nil, fmt.Errorf("open drain records: %w", err)
	}
	kv, err := openBucket(ctx, js, cluster)
	if err != nil {
		return nil, err
	}
	return &Drains{kv: kv, prefix: "drain." + pool + "."}, nil
}

// Load implements drain.Records. It returns all records or an error, which names
// every key whose value cannot be read: with some of its records forgotten, a
// pool would count nodes that leave as ones that stay.
func (d *Drains) Load(ctx context.Context) ([]drain.Record, error) {
	var records []drain.Record
	err := each(ctx, d.kv, d.prefix, func(entry jetstream.KeyValueEntry) error {
		r, err := d.decode(entry)
		if err == nil {
			records = append(records, r)
		}
		return err
	})
	return records, err
}

// decode reads a record. A state or number that makes no sense is for the reader
// of the record to judge, who then leaves its node alone.
func (d *Drains) decode(entry jetstream.KeyValueEntry) (drain.Record, error) {
	var r drain.Record
	if err := json.Unmarshal(entry.Value(), &r); err != nil {
		return drain.Record{}, err
	}
	if d.prefix+r.Node != entry.Key() {
		return drain.Record{}, fmt.Errorf("it is of node %q", r.Node)
	}
	return r, nil
}

// Put implements drain.Records.
func (d *Drains) Put(ctx context.Context, r drain.Record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode drain record of %s: %w", r.Node, err)
	}
	if _, err := d.kv.Put(ctx, d.prefix+r.Node, data); err != nil {
		return fmt.Errorf("write %s%s: %w", d.prefix, r.Node, err)
	}
	return nil
}

// Delete implements drain.Records.
func (d *Drains) Delete(ctx context.Context, node string) error {
	if err := d.kv.Purge(ctx, d.prefix+node); err != nil {
		return fmt.Errorf("delete %s%s: %w", d.prefix, node, err)
	}
	return nil
}
