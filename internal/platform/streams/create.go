package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
)

const (
	callTimeout = 5 * time.Second        // of one request
	retryPause  = 250 * time.Millisecond // before a request is repeated
)

// Result is what Create did with one stream.
type Result struct {
	Name    string   `json:"name"`
	Made    bool     `json:"made"`              // it was missing
	Differs []string `json:"differs,omitempty"` // how the settings of an existing stream differ
}

// Create creates the missing streams, and the schema of the missing buckets. It changes and deletes nothing that exists. It
// repeats what a new NATS cluster refuses or does not answer, until ctx ends. The results are those of the streams before the
// error.
func Create(ctx context.Context, js jetstream.JetStream, specs []jetstream.StreamConfig) (results []Result, err error) {
	for _, spec := range specs {
		r, err := createRepeatedly(ctx, js, spec)
		if err != nil {
			return results, fmt.Errorf("create stream %s: %w", spec.Name, err)
		}
		results = append(results, r)
	}
	return results, nil
}

func createRepeatedly(ctx context.Context, js jetstream.JetStream, spec jetstream.StreamConfig) (r Result, err error) {
	r.Name = spec.Name
	for {
		got, err := create(ctx, js, spec, &r)
		if err == nil {
			if !r.Made {
				r.Differs = differences(spec, got)
			}
			return r, nil
		}
		if !again(err) || !retry.Pause(ctx, retryPause) {
			return r, err
		}
	}
}

// create makes one attempt, and returns the settings of the existing stream.
func create(ctx context.Context, js jetstream.JetStream, spec jetstream.StreamConfig, r *Result) (got jetstream.StreamConfig, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s, err := js.Stream(ctx, spec.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err := CheckLayout(ctx, js, spec.Name); err != nil {
			return got, err
		}
		if s, err = js.CreateStream(ctx, spec); err == nil {
			r.Made = true
		}
	}
	if err != nil {
		return got, kvbucket.Explain(js.Conn(), "$JS.API.STREAM.CREATE."+spec.Name, err)
	}
	return s.CachedInfo().Config, writeSchema(ctx, js, spec)
}

// ErrLayout: a bucket has an earlier layout, which this version does not read.
var ErrLayout = errors.New("has an earlier layout, which this version does not read")

// Remove deletes the streams and buckets of these pools, with all that they store, and returns the names of those that were there. The
// role must be admin.
func Remove(ctx context.Context, js jetstream.JetStream, cluster string, pools ...Pool) (removed []string, err error) {
	all := Cluster{Name: cluster, Pools: pools}.Specs()
	for _, spec := range all[len(Cluster{Name: cluster}.Specs()):] {
		switch err := js.DeleteStream(ctx, spec.Name); {
		case err == nil:
			removed = append(removed, spec.Name)
		case !errors.Is(err, jetstream.ErrStreamNotFound):
			return removed, kvbucket.Explain(js.Conn(), "$JS.API.STREAM.DELETE."+spec.Name, err)
		}
	}
	return removed, nil
}

// CheckLayout finds the buckets of an earlier layout, in which all pools of a cluster shared one, when the harmonizer's bucket is the
// stream that is missing. Nothing moves them. The error is ErrLayout, with what to do, or of the request.
func CheckLayout(ctx context.Context, js jetstream.JetStream, missing string) error {
	cluster, ok := strings.CutPrefix(missing, kvbucket.Stream(names.HarmonizerBucket("")))
	if !ok {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all := js.StreamNames(ctx)
	for name := range all.Name() {
		if name == kvbucket.Stream("weir-state_"+cluster) || name == kvbucket.Stream("weir-orders_"+cluster) {
			return fmt.Errorf("stream %s %w: use an empty data folder or empty servers, or delete the stream with \"nats stream rm %s\"", name, ErrLayout, name)
		}
	}
	return kvbucket.Explain(js.Conn(), "$JS.API.STREAM.NAMES", all.Err())
}

// writeSchema writes the missing schema of a bucket.
func writeSchema(ctx context.Context, js jetstream.JetStream, spec jetstream.StreamConfig) error {
	name, isBucket := strings.CutPrefix(spec.Name, kvbucket.Stream(""))
	if !isBucket || spec.RePublish != nil { // the applications
		return nil
	}
	b := kvbucket.New(js, name)
	e, err := b.Get(ctx, SchemaKey)
	if err != nil || e.Found {
		return err
	}
	data, err := json.Marshal(Schema{SchemaVersion})
	if err == nil {
		_, err = b.Update(ctx, SchemaKey, data, e.Revision)
	}
	return err
}

// Schema is the value of SchemaKey.
type Schema struct {
	Version int `json:"version"`
}

// again reports whether the same request may succeed within seconds.
func again(err error) bool {
	return errors.Is(err, kvbucket.ErrNoAnswer) || errors.Is(err, kvbucket.ErrUnknown) || errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) ||
		errors.Is(err, kvbucket.ErrNoPeers) || errors.Is(err, jetstream.ErrKeyRevisionMismatch)
}
