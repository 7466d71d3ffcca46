package state

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// maxDrain bounds a drain record, in bytes of JSON.
const maxDrain = 64 << 10

// Records implements drain.Records.
type Records struct{ holder *Holder }

var _ drain.Records = (*Records)(nil)

// Load returns all records, in order of node. An unreadable record has only Node and Why, as drain.Records requires.
// Its node is left alone.
func (r *Records) Load(ctx context.Context) ([]api.Drain, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	h := r.holder
	end, err := h.begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("load drain records of pool %s: %w", h.pool, err)
	}
	defer end()
	var records []api.Drain
	for _, key := range slices.Sorted(maps.Keys(h.savedValues)) {
		if node, ok := strings.CutPrefix(key, drainPrefix); ok {
			record, err := decodeDrain(node, h.savedValues[key].body)
			if err != nil {
				record = api.Drain{Node: node, Why: fmt.Sprintf("read %s: %v", key, err)}
			}
			records = append(records, record)
		}
	}
	return records, nil
}

// Put writes the record of its node and replaces an earlier one.
func (r *Records) Put(ctx context.Context, record api.Drain) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	h := r.holder
	body, err := encodeDrain(record)
	if err != nil {
		return fmt.Errorf("put drain record: %w", err)
	}
	end, err := h.begin(ctx)
	if err != nil {
		return fmt.Errorf("put drain record of %s: %w", record.Node, err)
	}
	defer end()
	return h.putKey(ctx, drainPrefix+record.Node, body)
}

// Delete removes the node's record. A missing record is not an error.
func (r *Records) Delete(ctx context.Context, node string) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	h := r.holder
	if err := checkNode(node); err != nil {
		return fmt.Errorf("delete drain record: %w", err)
	}
	end, err := h.begin(ctx)
	if err != nil {
		return fmt.Errorf("delete drain record of %s: %w", node, err)
	}
	defer end()
	return h.remove(ctx, drainPrefix+node)
}

func encodeDrain(record api.Drain) ([]byte, error) {
	if err := checkNode(record.Node); err != nil {
		return nil, err
	}
	data, err := json.Marshal(record)
	if err != nil {
		return nil, fmt.Errorf("encode the record of %s: %w", record.Node, err)
	}
	if len(data) > maxDrain {
		return nil, fmt.Errorf("the record of %s has %d bytes, more than %d", record.Node, len(data), maxDrain)
	}
	return data, nil
}

func decodeDrain(node string, body []byte) (api.Drain, error) {
	if len(body) > maxDrain {
		return api.Drain{}, fmt.Errorf("longer than %d bytes", maxDrain)
	}
	var record api.Drain
	if err := json.Unmarshal(body, &record); err != nil {
		return api.Drain{}, err
	}
	if record.Node != node {
		return api.Drain{}, fmt.Errorf("it belongs to node %q", record.Node)
	}
	return record, nil
}
