package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// watch returns the part that prints one line for each tick. It hears from now
// on, so that the first tick is not missed.
func (u *up) watch(ctx context.Context) (func(context.Context) error, error) {
	ledger, err := state.OpenLedger(ctx, u.bus.JetStream(), u.Cluster, u.Pool)
	if err != nil {
		return nil, err
	}
	heard := make(chan *nats.Msg, 64)
	counts := message.CountsSubject(u.Cluster, u.Pool)
	for _, subject := range []string{counts, state.LedgerSubject(u.Cluster, u.Pool)} {
		if _, err := u.bus.Conn().ChanSubscribe(subject, heard); err != nil {
			return nil, fmt.Errorf("watch the ticks: %w", err)
		}
	}
	return func(ctx context.Context) error {
		var now message.Counts
		var parts message.Gather
		ready := false
		silence := time.NewTicker(upPatience)
		defer silence.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-silence.C:
				fmt.Fprintf(u.stdout, "! no tick for %v; see weir status, and %s\n", upPatience, u.logFile.Name())
			case m := <-heard:
				if m.Subject == counts {
					if part, err := message.DecodeCounts(m.Data); err == nil {
						if whole, ok := parts.Add(part); ok {
							now = whole
						}
					}
					continue
				}
				data, err := ledger.Heard(ctx, m)
				if err != nil {
					u.log.Warn("record of a tick cannot be read", "err", err)
					continue
				}
				r, err := readRecord(data)
				if err != nil {
					u.log.Warn("record of a tick cannot be read", "err", err)
					continue
				}
				silence.Reset(max(upPatience, 3*r.Every))
				if !ready && r.Failed == "" {
					ready = true
					fmt.Fprintf(u.stdout, "ready in %.1fs; in another terminal: weir status, weir explain, weir app set --help; log in %s\n",
						time.Since(u.began).Seconds(), u.logFile.Name())
				}
				fmt.Fprintln(u.stdout, tickLine(r, now))
			}
		}
	}, nil
}

// tickLine is one tick in one line: what was wanted, what is, and what was done.
func tickLine(r autoscaler.Record, c message.Counts) string {
	at := r.At.Local().Format(time.TimeOnly)
	if r.Failed != "" {
		return fmt.Sprintf("%s tick ended early: %s", at, r.Failed)
	}
	if r.Paused != nil {
		return fmt.Sprintf("%s paused %s", at, ordered(*r.Paused))
	}
	if r.Case == nil || r.Answer == nil || r.Detail == nil {
		return at + " tick in a form that is not known here"
	}
	parts := []string{fmt.Sprintf("%s asked %s; pool %s -> %s, %s joined", at, r.Detail.Request,
		number(r.Case.Input.Capacity.Target+r.Case.State.Offset), number(r.Answer.Target), number(r.Snapshot.Joined))}
	for _, name := range sortedKeys(c.Apps) {
		parts = append(parts, fmt.Sprintf("%s %d/%d", name, c.Apps[name].Running, c.Apps[name].Expected))
	}
	if len(r.Drains) > 0 {
		parts = append(parts, fmt.Sprintf("%d leaving", len(r.Drains)))
	}
	for _, a := range r.Detail.Apps {
		if a.StandIn {
			parts = append(parts, fmt.Sprintf("app %s is served by %s", a.App, server(a.Source)))
		}
	}
	for _, p := range r.Problems {
		parts = append(parts, "! "+p)
	}
	return strings.Join(parts, "; ")
}
