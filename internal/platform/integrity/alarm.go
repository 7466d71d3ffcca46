package integrity

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
)

// shown is the maximum number of problems in an alarm.
const shown = 200

// maxAlarm bounds an alarm and an acceptance, in bytes.
const maxAlarm = 256 << 10

// Prefixes of keys in the bucket of the cluster.
const (
	alarmPrefix  = "alarm."
	acceptPrefix = "accept."
)

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

// Alarms returns the alarms of a cluster, oldest first. A cluster without a bucket has no alarm. An unreadable alarm
// is returned as a problem.
func Alarms(ctx context.Context, js jetstream.JetStream, cluster string) ([]Alarm, error) {
	bucket := names.StateBucket(cluster)
	c, err := Read(ctx, js, bucket, alarmPrefix+">")
	if errors.Is(err, kvbucket.ErrMissing) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read alarms: %w", err)
	}
	var all []Alarm
	for _, k := range c.Keys {
		if k.Deleted {
			continue
		}
		reader := strings.TrimPrefix(k.Name, alarmPrefix)
		var a Alarm
		if err := decode(k.Value, &a); err != nil || a.Reader != reader {
			a = Alarm{Reader: reader, Count: 1, Problems: []Problem{
				{Bucket: bucket, Key: k.Name, Expected: "an alarm", Found: "an unreadable value", Unreadable: true},
			}}
		}
		all = append(all, a)
	}
	return all, nil
}

// Accept stores that an operator accepts the problems of an alarm. It creates a missing bucket of orders with that many
// replicas.
func Accept(ctx context.Context, js jetstream.JetStream, cluster string, replicas int, a Alarm, accepted Acceptance) error {
	accepted.Digest = a.Digest
	orders := kvbucket.Orders(cluster, replicas)
	_, err := kvbucket.Ensure(ctx, js, orders)
	if err == nil {
		err = put(ctx, kvbucket.New(js, orders.Name), acceptPrefix+a.Reader, accepted)
	}
	if err != nil {
		return fmt.Errorf("accept the alarm of %s: %w", a.Reader, err)
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

// acceptance returns the last acceptance for a reader; the zero value without one.
func acceptance(ctx context.Context, js jetstream.JetStream, cluster, reader string) (Acceptance, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var a Acceptance
	e, err := kvbucket.New(js, names.OrdersBucket(cluster)).Get(ctx, acceptPrefix+reader)
	if errors.Is(err, kvbucket.ErrMissing) || err == nil && !e.Found {
		return a, nil
	}
	if err != nil {
		return a, err
	}
	return a, decode(e.Value, &a)
}
