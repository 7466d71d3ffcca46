package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/bootstrapd"
	"github.com/weirkeeper/weirkeeper/internal/diskspace"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
)

// askTimeout bounds each request of a command over the bus.
const askTimeout = 3 * time.Second

// connection returns how a process of that name connects to the bus.
func (cli *shared) connection(name string) (bus.Config, error) { return cli.connectionOf("", "", name) }

// connectionOf is connection of a process whose own file names servers; see command.Settings.
func (cli *shared) connectionOf(place, list, name string) (bus.Config, error) {
	settings, log, err := cli.Daemon()
	if err != nil {
		return bus.Config{}, err
	}
	n, err := config.LoadNATS(settings.Configs)
	if err != nil {
		return bus.Config{}, command.Usage(err)
	}
	return settings.BusOf(place, list, n, name, log), nil
}

func nothingRuns(dir string) error {
	return fmt.Errorf("nothing runs in data folder %s: start it with \"weir up\", or name another with --data or --nats", dir)
}

// withBus runs f with a connection that it closes again, for at most --timeout.
func (cli *shared) withBus(ctx context.Context, f func(ctx context.Context, b *bus.Bus) error) error {
	ctx, cancel := context.WithTimeout(ctx, cli.Timeout)
	defer cancel()
	return cli.onBus(ctx, f)
}

// onBus is withBus without the bound, for commands that go on until Ctrl-C, or print what
// they receive. Each request that f makes needs a deadline of its own.
func (cli *shared) onBus(ctx context.Context, f func(ctx context.Context, b *bus.Bus) error) error {
	c, err := cli.connection("weir command")
	if err != nil {
		return err
	}
	return cli.on(ctx, c, f)
}

// on runs f with a connection that it closes again.
func (cli *shared) on(ctx context.Context, c bus.Config, f func(ctx context.Context, b *bus.Bus) error) error {
	b, err := bus.Find(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	err = poolMistake(ctx, b, cli.Cluster, cli.Pool, f(ctx, b))
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) {
		return fmt.Errorf("%w; no response in time over the bus at %s: check NATS and its JetStream, or wait longer with --timeout (now %v)",
			err, b.Conn().ConnectedUrlRedacted(), cli.Timeout)
	}
	return err
}

// patient returns a context that ends when nothing was received for --timeout. The caller
// passes to handle what it does with each thing that it received: that time does not count.
func (cli *shared) patient(ctx context.Context) (waiting context.Context, handle func(do func() error) error, cancel context.CancelFunc) {
	waiting, end := context.WithCancelCause(ctx)
	clock := time.AfterFunc(cli.Timeout, func() { end(context.DeadlineExceeded) })
	handle = func(do func() error) error {
		clock.Stop()
		defer clock.Reset(cli.Timeout)
		return do()
	}
	return waiting, handle, func() { clock.Stop(); end(nil) }
}

// askJSON sends a request to subject, nil for an empty one, and decodes the response.
// part names the receiver in errors.
func askJSON(ctx context.Context, nc *nats.Conn, subject, part string, request, out any) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var data []byte
	if request != nil {
		var err error
		if data, err = json.Marshal(request); err != nil {
			return fmt.Errorf("send a request to the %s: %w", part, err)
		}
	}
	msg, err := bus.Request(ctx, nc, subject, data)
	if errors.Is(err, nats.ErrNoResponders) {
		return &absentError{part}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the %s does not respond in time: %w; check its process and its log: it is starting, hangs or is stopped", part, err)
	}
	if err != nil {
		return fmt.Errorf("send a request to the %s: %w", part, err)
	}
	if err := json.Unmarshal(msg.Data, out); err != nil {
		return fmt.Errorf("read the response of the %s: %w", part, err)
	}
	return nil
}

// absentError is the error of a request without a receiver.
type absentError struct{ part string }

func (e *absentError) Error() string {
	what, _, _ := strings.Cut(e.part, " ")
	return fmt.Sprintf("no %s runs here: start \"weir %s\", or \"weir up\"", e.part, what)
}

// askCounts requests the counts of a pool from the harmonizer. The response may consist
// of several messages.
func askCounts(ctx context.Context, nc *nats.Conn, cluster, pool string) (message.Counts, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var parts message.Gather
	var whole message.Counts
	var unreadable error
	err := bus.Replies(ctx, nc, message.CountsRequestSubject(cluster, pool), nil, func(m *nats.Msg) (more bool, err error) {
		part, err := message.DecodeCounts(m.Data)
		if err != nil {
			unreadable = err
			return false, nil
		}
		var complete bool
		whole, complete = parts.Add(part)
		return !complete, nil
	})
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return message.Counts{}, &absentError{"harmonizer"}
	case err != nil:
		return message.Counts{}, fmt.Errorf("send a request to the harmonizer: %w", err)
	case unreadable != nil:
		return message.Counts{}, fmt.Errorf("read the response of the harmonizer: %w", unreadable)
	}
	return whole, nil
}

// nodeHealth asks the node health of the pool.
func (cli *shared) nodeHealth(b *bus.Bus) *events.Client {
	return events.NewClient(b.Conn(), cli.Cluster, cli.Pool)
}

func (cli *shared) bootstrapName() string { return "bootstrap of pool " + cli.Cluster + "/" + cli.Pool }

func (cli *shared) askBootstrap(ctx context.Context, b *bus.Bus) (bootstrapd.Status, error) {
	var s bootstrapd.Status
	err := askJSON(ctx, b.Conn(), bootstrapd.Subject(cli.Cluster, cli.Pool, "status"), cli.bootstrapName(), nil, &s)
	return s, err
}

// metricsStore returns the store of the service file or, without one, that of the
// data folder.
func (cli *shared) metricsStore(b *bus.Bus) (metrics.Store, error) {
	service, err := config.LoadService(cli.ConfigDir())
	if err != nil {
		return nil, command.Usage(err)
	}
	return daemon.OpenMetrics(service, b, cli.Cluster)
}

// fullDisks returns the full disks of bootstrap's data folder, and of the folder of this
// command if its bus is there: bootstrap may not answer because of them.
func (cli *shared) fullDisks(p *bootstrapd.Status) (lines []string) {
	var full []*diskspace.Full
	if p != nil {
		full = p.Full
	}
	if c, err := cli.connection(""); err == nil && len(c.NATS.List()) == 0 {
		full = append(full, diskspace.Watched(c.Data, command.DataParts()...)...)
	}
	for _, one := range full {
		if line := one.Error(); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}
