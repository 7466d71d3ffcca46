package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
)

// errUnreadable is the error of a row that cannot be decoded.
var errUnreadable = errors.New("application cannot be read")

func badAppName(name string) error {
	return usage.New(fmt.Errorf("application name %q: %s", name, names.Rule))
}

// errNoApp is the error of a name without a row in the bucket.
var errNoApp = errors.New("no such application")

// checkBucket returns an error unless the cluster has a bucket of applications that can be written.
func checkBucket(ctx context.Context, b *bus.Bus, cluster string) error {
	ctx, cancel := context.WithTimeout(ctx, view.Timeout)
	defer cancel()
	_, err := kvbucket.Check(ctx, b.JetStream(), message.AppsBucket(cluster))
	if errors.Is(err, kvbucket.ErrMissing) {
		return fmt.Errorf("cluster %q has no applications bucket: \"weir nats streams\" creates it", cluster)
	}
	return err
}

// onApp calls f with the row of an application, and its revision. If f writes over a row that is not the newest one, it
// is called again.
func (cli *commands) onApp(ctx context.Context, name string, f func(ctx context.Context, b *bus.Bus, row api.App, revision uint64) error) error {
	return cli.WithBus(ctx, func(ctx context.Context, b *bus.Bus) error {
		if err := checkBucket(ctx, b, cli.Cluster); err != nil {
			return err
		}
		return onNewestRow(ctx, func() error {
			row, revision, err := readApp(ctx, b, cli.Cluster, name)
			if err != nil {
				return err
			}
			return f(ctx, b, row, revision)
		})
	})
}

// readApp returns a row and its revision, which is 0 if the store cannot read it.
func readApp(ctx context.Context, b *bus.Bus, cluster, name string) (api.App, uint64, error) {
	if !names.Valid(name) {
		return api.App{}, 0, badAppName(name)
	}
	found, err := integrity.Read(ctx, b.JetStream(), message.AppsBucket(cluster), name)
	if err != nil {
		return api.App{}, 0, fmt.Errorf("read application %s: %w", name, err)
	}
	if len(found.Keys) == 0 || found.Keys[0].Deleted {
		return api.App{}, 0, noApp(ctx, b, cluster, name)
	}
	row, err := rowOfApp(found.Keys[0])
	return row, found.Keys[0].Revision, err
}

// noApp returns the error for an application that has no row, with the names of those that
// have one.
func noApp(ctx context.Context, b *bus.Bus, cluster, name string) error {
	found, err := integrity.Read(ctx, b.JetStream(), message.AppsBucket(cluster))
	if err != nil {
		return fmt.Errorf("list applications: %w", err)
	}
	var rows []string
	for _, k := range found.Keys {
		if !k.Deleted {
			rows = append(rows, k.Name)
		}
	}
	return missingApp(name, rows)
}

// missingApp returns the error for an application that is not among those.
func missingApp(name string, others []string) error {
	if len(others) == 0 {
		return usage.New(fmt.Errorf("%w: %s; there are no applications: set one with \"weir app set\"", errNoApp, name))
	}
	return usage.New(fmt.Errorf("%w: %s%s; \"weir app list\" shows all", errNoApp, name, spelling.Suggest(name, others)))
}

// rowOfApp decodes a row; errUnreadable if that is impossible.
func rowOfApp(k integrity.Key) (api.App, error) {
	if k.Damaged {
		return api.App{}, fmt.Errorf("%w: %s: the store cannot read its row; \"weir app delete %s\" removes it", errUnreadable, k.Name, k.Name)
	}
	row, err := message.DecodeApp(k.Value)
	switch {
	case k.Forged:
		err = kvbucket.ErrForged
	case err == nil && row.Name != k.Name:
		err = fmt.Errorf("its row has the name %q", row.Name)
	}
	if err != nil {
		return api.App{}, fmt.Errorf("%w: %s: %w; \"weir app set %s\" with --instances and --command replaces it, \"weir app delete %s\" removes it",
			errUnreadable, k.Name, err, k.Name, k.Name)
	}
	return row, nil
}

// Bounds of a write, which outlasts the election of a leader, and of reading it again.
const (
	appWriteTimeout  = 10 * time.Second
	appSettleTimeout = 5 * time.Second
)

// writeApp stores the row if its revision in the bucket is still the given one. A new
// row has revision 0. If the write has no answer, the row is read again.
func writeApp(ctx context.Context, b *bus.Bus, cluster string, row api.App, revision uint64) error {
	data, err := json.Marshal(row)
	if err != nil {
		return err
	}
	bound, cancel := context.WithTimeout(ctx, appWriteTimeout)
	defer cancel()
	apps := kvbucket.New(b.JetStream(), message.AppsBucket(cluster))
	if revision == 0 { // a new one, or one that was deleted
		now, err := apps.Get(bound, row.Name)
		switch {
		case err != nil:
			return fmt.Errorf("write application %s: %w", row.Name, err)
		case now.Found:
			return changedError{row.Name}
		}
		revision = now.Revision
	}
	_, err = apps.Update(bound, row.Name, data, revision)
	switch {
	case errors.Is(err, kvbucket.ErrUnknown):
		err = settledApp(ctx, apps, row.Name, data, err)
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return changedError{row.Name}
	}
	if err != nil {
		return fmt.Errorf("write application %s: %w", row.Name, err)
	}
	return announceApp(b.Conn(), row.Name)
}

// changedError is the error of a write over a row that is not the newest one.
type changedError struct{ name string }

func (e changedError) Error() string {
	return fmt.Sprintf("application %s was changed by another command at the same time: read it with \"weir app get\" and try again", e.name)
}

// rereads bounds how long a command repeats a change. A replica may return a row that is up to two seconds old.
var rereads = retry.Policy{First: 50 * time.Millisecond, Longest: 500 * time.Millisecond, For: appSettleTimeout}

// onNewestRow calls change, which reads a row and writes it, again while the row that it read is not the newest one.
func onNewestRow(ctx context.Context, change func() error) error {
	isOld := func(err error) bool { return errors.As(err, new(changedError)) }
	return rereads.Do(ctx, isOld, func() (time.Duration, error) { return 0, change() })
}

// eraseApp deletes the row if its revision in the bucket is still the given one. If the write of the delete marker has no
// answer, the row is read again.
func eraseApp(ctx context.Context, b *bus.Bus, cluster, name string, revision uint64) error {
	bound, cancel := context.WithTimeout(ctx, appWriteTimeout)
	defer cancel()
	apps := kvbucket.New(b.JetStream(), message.AppsBucket(cluster))
	_, err := apps.Delete(bound, name, revision)
	switch {
	case errors.Is(err, kvbucket.ErrUnknown):
		return settledApp(ctx, apps, name, nil, err)
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return changedError{name}
	}
	return err
}

// settledApp reads a row whose write has no answer. It returns nil if the row is stored; nil data is a deleted row.
// Otherwise the write may still be applied, so the error is not one of a failed write.
func settledApp(ctx context.Context, apps *kvbucket.Bucket, name string, data []byte, unknown error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appSettleTimeout)
	defer cancel()
	if now, err := apps.Get(ctx, name); err == nil && now.Found == (data != nil) && (data == nil || bytes.Equal(now.Value, data)) {
		return nil
	}
	return fmt.Errorf("%w; read it with \"weir app get %s\" before you try again", unknown, name)
}

func announceApp(nc *nats.Conn, name string) error {
	data, err := json.Marshal(message.Updated{Partition: message.Partition, App: name})
	if err != nil {
		return err
	}
	if err := nc.Publish(message.SubjectUpdated, data); err != nil {
		return fmt.Errorf("announce application %s: %w", name, err)
	}
	return nc.Flush()
}

// listApps returns the rows in order of name, and an error for each row that cannot be read.
func listApps(ctx context.Context, b *bus.Bus, cluster string) (rows []api.App, bad []error, err error) {
	if err := checkBucket(ctx, b, cluster); err != nil {
		return nil, nil, err
	}
	found, err := integrity.Read(ctx, b.JetStream(), message.AppsBucket(cluster))
	if err != nil {
		return nil, nil, fmt.Errorf("list applications: %w", err)
	}
	rows = []api.App{}
	for _, k := range found.Keys {
		if k.Deleted {
			continue
		}
		if row, err := rowOfApp(k); err != nil {
			bad = append(bad, err)
		} else {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(x, y api.App) int { return strings.Compare(x.Name, y.Name) })
	return rows, bad, nil
}
