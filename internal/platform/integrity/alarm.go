package integrity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
)

// shown is the maximum number of problems in an alarm.
const shown = 200

// maxAlarm bounds an alarm and an acceptance, in bytes.
const maxAlarm = 256 << 10

// Keys in the bucket of a reader.
const (
	alarmKey  = "alarm"
	acceptKey = "accept.damage"
)

// Reader is a process that compares what it reads with what it has seen.
type Reader struct {
	Name   string // for operators
	Bucket string // of its alarm and of the acceptance
}

// AppsName is the name of the reader of a cluster's applications, and PoolPrefix begins the names of the readers of pools.
const (
	AppsName   = "apps"
	PoolPrefix = "pool."
)

// AppsReader returns the reader of a cluster's applications: its harmonizer.
func AppsReader(cluster string) Reader { return Reader{AppsName, names.HarmonizerBucket(cluster)} }

// PoolReader returns the reader of a pool's state and orders: its autoscaler.
func PoolReader(cluster, pool string) Reader {
	return Reader{PoolPrefix + pool, names.PoolBucket(cluster, pool)}
}

// Alarm is a reader's report of its problems.
type Alarm struct {
	Reader   string    `json:"reader"` // the data that it reads: "apps", "pool.POOL"
	By       string    `json:"by"`     // the process
	At       time.Time `json:"at"`
	Digest   string    `json:"digest"` // of the problems that an operator can accept; empty: no such problem
	Count    int       `json:"count"`
	Problems []Problem `json:"problems"` // at most the first 200
}

// Acceptance records that an operator accepts the problems of that digest.
type Acceptance struct {
	Digest string    `json:"digest"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// Alarms returns the alarms of a cluster and of these pools, oldest first. A reader without a bucket has no alarm. An
// unreadable alarm is returned as a problem.
func Alarms(ctx context.Context, js jetstream.JetStream, cluster string, pools ...string) ([]Alarm, error) {
	readers := []Reader{AppsReader(cluster)}
	for _, pool := range pools {
		readers = append(readers, PoolReader(cluster, pool))
	}
	var all []Alarm
	for _, r := range readers {
		a, err := r.Alarm(ctx, js)
		if err != nil {
			return nil, err
		}
		if a != nil {
			all = append(all, *a)
		}
	}
	slices.SortStableFunc(all, func(a, b Alarm) int { return a.At.Compare(b.At) })
	return all, nil
}

// Alarm returns the alarm of the reader; nil without one.
func (r Reader) Alarm(ctx context.Context, js jetstream.JetStream) (*Alarm, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	e, err := kvbucket.New(js, r.Bucket).Get(ctx, alarmKey)
	var a Alarm
	switch unreadable := errors.Is(err, kvbucket.ErrDamaged) || errors.Is(err, kvbucket.ErrForged); {
	case errors.Is(err, kvbucket.ErrMissing) || err == nil && !e.Found:
		return nil, nil
	case err != nil && !unreadable:
		return nil, fmt.Errorf("read the alarm of %s: %w", r.Name, err)
	case unreadable || decode(e.Value, &a) != nil || a.Reader != r.Name:
		a = Alarm{Reader: r.Name, Count: 1, Problems: []Problem{
			{Bucket: r.Bucket, Key: alarmKey, Expected: "an alarm", Found: "an unreadable value", Unreadable: true},
		}}
	}
	return &a, nil
}

// Accept stores that an operator accepts the problems of an alarm of the reader.
func (r Reader) Accept(ctx context.Context, js jetstream.JetStream, a Alarm, accepted Acceptance) error {
	accepted.Digest = a.Digest
	if err := put(ctx, kvbucket.New(js, r.Bucket), acceptKey, accepted); err != nil {
		return fmt.Errorf("accept the alarm of %s: %w", r.Name, err)
	}
	return nil
}

func decode(value []byte, out any) error {
	if len(value) > maxAlarm {
		return fmt.Errorf("longer than %d bytes", maxAlarm)
	}
	return json.Unmarshal(value, out)
}

func put(ctx context.Context, b *kvbucket.Bucket, key string, v any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = b.Put(ctx, key, data)
	return err
}

// remove deletes a key. A missing key is not an error.
func remove(ctx context.Context, b *kvbucket.Bucket, key string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	e, err := b.Get(ctx, key)
	if err != nil || !e.Found {
		return err
	}
	_, err = b.Delete(ctx, key, e.Revision)
	return err
}

// acceptance returns the last acceptance for the reader; the zero value without one.
func (r Reader) acceptance(ctx context.Context, js jetstream.JetStream) (Acceptance, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var a Acceptance
	e, err := kvbucket.New(js, r.Bucket).Get(ctx, acceptKey)
	if errors.Is(err, kvbucket.ErrMissing) || err == nil && !e.Found {
		return a, nil
	}
	if err != nil {
		return a, err
	}
	if err := strictjson.Within(e.Value, maxAlarm, &a); err != nil { // an order of an operator: an unknown key may limit it
		return Acceptance{}, fmt.Errorf("key %s in bucket %s: %w; accept again to replace it", acceptKey, r.Bucket, err)
	}
	return a, nil
}
