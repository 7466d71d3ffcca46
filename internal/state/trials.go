package state

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// Trials stores the trials of one pool's shadows in the pool's bucket: the last one of each app at "trial.APP", and
// of each advisor at "trial.APP/NAME".
type Trials struct{ bucket *bucket }

var _ bootstrap.Trials = (*Trials)(nil)

// OpenTrials opens the trials of a pool.
func OpenTrials(ctx context.Context, js jetstream.JetStream, cluster, pool string) (*Trials, error) {
	if err := checkNames(cluster, pool); err != nil {
		return nil, fmt.Errorf("open trials: %w", err)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	b, err := openBucket(ctx, js, names.PoolBucket(cluster, pool))
	if err != nil {
		return nil, err
	}
	return &Trials{b}, nil
}

// Load implements bootstrap.Trials. It returns all readable trials, and an error that names the others.
func (t *Trials) Load(ctx context.Context) ([]api.Trial, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var trials []api.Trial
	err := t.bucket.list(ctx, 0, []string{trialPrefix + ">"}, func(entry integrity.Key) error {
		var trial api.Trial
		if err := json.Unmarshal(entry.Value, &trial); err != nil {
			return err
		}
		if trialKey(trial.App) != entry.Name {
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
	return t.bucket.put(ctx, trialKey(trial.App), data)
}

// trialKey returns the key of an app, or of an advisor, "APP~NAME". A key cannot have its mark.
func trialKey(app string) string { return trialPrefix + strings.ReplaceAll(app, "~", "/") }
