package state

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
)

// Trials stores the trials of one pool's shadows in the cluster's bucket: each app's last one at
// "trial.<pool>.<app>".
type Trials struct {
	bucket *bucket
	prefix string // ends in a dot
}

var _ bootstrap.Trials = (*Trials)(nil)

// OpenTrials opens the trials of a pool, in the cluster's bucket. It creates a missing bucket with that many replicas.
func OpenTrials(ctx context.Context, js jetstream.JetStream, cluster, pool string, replicas int) (*Trials, error) {
	if err := checkNames(cluster, pool); err != nil {
		return nil, fmt.Errorf("open trials: %w", err)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	b, err := openBucket(ctx, js, kvbucket.State(cluster, replicas))
	if err != nil {
		return nil, err
	}
	return &Trials{bucket: b, prefix: "trial." + pool + "."}, nil
}

// Load implements bootstrap.Trials. It returns all readable trials, and an error that names the others.
func (t *Trials) Load(ctx context.Context) ([]api.Trial, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var trials []api.Trial
	err := t.bucket.list(ctx, 0, []string{t.prefix + ">"}, func(entry integrity.Key) error {
		var trial api.Trial
		if err := json.Unmarshal(entry.Value, &trial); err != nil {
			return err
		}
		if t.prefix+trial.App != entry.Name {
			return fmt.Errorf("it belongs to app %q", trial.App)
		}
		trials = append(trials, trial)
		return nil
	})
	return trials, err
}

// Save implements bootstrap.Trials.
func (t *Trials) Save(ctx context.Context, trial api.Trial) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	data, err := json.Marshal(trial)
	if err != nil {
		return fmt.Errorf("encode trial of %s: %w", trial.App, err)
	}
	return t.bucket.put(ctx, t.prefix+trial.App, data)
}
