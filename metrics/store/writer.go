package store

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// Writer is the process that writes to a store: one of the values below, or of PoolWriter and PlacerWriter. It is the last token of the
// subject of a write, so the permissions of the bus guarantee it.
type Writer string

// The writers without a pool.
const (
	HarmonizerWriter Writer = "harmonizer"
	OperatorWriter   Writer = "operator"
)

const (
	poolPrefix   = "pool_"
	placerPrefix = "placer_"
)

// PoolWriter is the autoscaler of a pool.
func PoolWriter(pool string) Writer { return Writer(poolPrefix + pool) }

// PlacerWriter is the placer of a pool.
func PlacerWriter(pool string) Writer { return Writer(placerPrefix + pool) }

// ErrForeign: a writer wrote a series of another writer.
var ErrForeign = errors.New("series of another writer")

// Check returns ErrForeign for the first sample that the writer may not write. A pool and its placer write series with the
// dimension of their pool only, the harmonizer writes counts of instances, and an operator writes everything.
func (w Writer) Check(samples []metrics.Sample) error {
	if w == OperatorWriter {
		return nil
	}
	for _, s := range samples {
		if !w.may(s) {
			return fmt.Errorf("%w: %.80q may not write %s %.80q with pool=%.80q", ErrForeign, w, s.Type, s.Name, s.Dimensions["pool"])
		}
	}
	return nil
}

func (w Writer) may(s metrics.Sample) bool {
	if w == HarmonizerWriter {
		return s.Type == metrics.InstanceCounts
	}
	pool, of := strings.CutPrefix(string(w), poolPrefix)
	if !of {
		if pool, of = strings.CutPrefix(string(w), placerPrefix); !of || s.Type != metrics.System {
			return false
		}
	}
	return pool != "" && s.Dimensions["pool"] == pool && (s.Type == metrics.System || s.Type == metrics.Metadata)
}
