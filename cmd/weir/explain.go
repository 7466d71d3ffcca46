package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

func (cli *cli) explainCommand() *cobra.Command {
	var since time.Duration
	cmd := &cobra.Command{
		Use:   "explain [POOL]",
		Short: "Say why the last tick of a pool did what it did",
		Long: `Say why the last tick of a pool did what it did: what each signal answered, how
the answers were combined, what each rule made of the target, what each group
should be, and what was asked of the provider.

It renders the tick's record in the ledger and nothing else; --output json
prints the record itself, on one line, as "weir decide" reads it.`,
		Example: `  weir explain
  weir explain default --output json
  weir explain --since 1h --output json | weir decide`,
		Args: cli.poolArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if since < 0 {
				return &usageError{fmt.Errorf("--since %v: want how long ago, such as 5m", since)}
			}
			return cli.withBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error { return cli.explain(ctx, b, since) })
		},
	}
	cmd.Flags().DurationVar(&since, "since", 0, "all ticks of so long, oldest first; default: the last one")
	cli.outputFlag(cmd)
	return cmd
}

func (cli *cli) explain(ctx context.Context, b *bus.Bus, since time.Duration) error {
	now := time.Now()
	show := func(r autoscaler.Record) error {
		if cli.output == "json" {
			return json.NewEncoder(cli.stdout).Encode(r)
		}
		explainRecord(cli.stdout, r, now)
		return nil
	}
	if since <= 0 {
		r, err := lastRecord(ctx, b, cli.Cluster, cli.Pool)
		if err != nil {
			return err
		}
		return show(r)
	}
	ledger, err := state.OpenLedger(ctx, b.JetStream(), cli.Cluster, cli.Pool)
	if err != nil {
		return err
	}
	return ledger.Since(ctx, now.Add(-since), func(data []byte) error {
		r, err := readRecord(data)
		if err != nil {
			return err
		}
		return show(r)
	})
}

// readRecord decodes a tick of the ledger.
func readRecord(data []byte) (autoscaler.Record, error) {
	var r autoscaler.Record
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("read a record of the ledger: %w; an older weir wrote it in another form", err)
	}
	return r, nil
}

// lastRecord reads the newest tick of a pool.
func lastRecord(ctx context.Context, b *bus.Bus, cluster, pool string) (autoscaler.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var r autoscaler.Record
	ledger, err := state.OpenLedger(ctx, b.JetStream(), cluster, pool)
	if err != nil {
		return r, err
	}
	data, err := ledger.Last(ctx)
	if errors.Is(err, state.ErrNoRecord) {
		return r, fmt.Errorf("pool %s of cluster %s: %w; is its name right, and does its autoscaler run?", pool, cluster, err)
	}
	if err != nil {
		return r, err
	}
	if r, err = readRecord(data); err != nil || !r.DryRun {
		return r, err
	}
	return besideDry(ctx, ledger, r)
}

// besideDry returns the newest record of who holds the pool, if somebody does beside
// the dry run that recorded r.
func besideDry(ctx context.Context, ledger *state.Ledger, r autoscaler.Record) (autoscaler.Record, error) {
	err := ledger.Since(ctx, r.At.Add(-3*r.Every), func(data []byte) error {
		one, err := readRecord(data)
		if err == nil && !one.DryRun {
			r = one
		}
		return nil
	})
	return r, err
}

// explainRecord prints one tick for people.
func explainRecord(w io.Writer, r autoscaler.Record, now time.Time) {
	fmt.Fprintf(w, "pool %s/%s, tick of %s (%s ago), took %v\n",
		r.Cluster, r.Pool, r.At.Format(time.TimeOnly), ago(now, r.At), r.Took.Round(time.Millisecond))
	if r.DryRun {
		fmt.Fprintln(w, "dry run: nothing was asked of the provider")
	}
	for _, p := range r.Problems {
		fmt.Fprintf(w, "! %s\n", p)
	}
	switch {
	case r.Paused != nil:
		fmt.Fprintf(w, "paused %s\n", ordered(*r.Paused))
		return
	case r.Failed != "":
		fmt.Fprintf(w, "! ended before a decision: %s\n", r.Failed)
		return
	case r.Case == nil || r.Answer == nil || r.Detail == nil:
		fmt.Fprintln(w, "! the record is not whole: an older weir wrote it in another form")
		return
	}
	for _, d := range r.Drift {
		fmt.Fprintf(w, "! somebody else set the target of %s: %d, after we asked for %d\n", d.Group, d.Found, d.Asked)
	}
	explainSignals(w, r, now)
	fmt.Fprintf(w, "\nrequest  %s\n", r.Detail.Request)
	fmt.Fprintln(w, "\nsteps")
	for _, s := range r.Answer.Steps {
		fmt.Fprintf(w, "  %-26s %8s -> %-8s %s\n", s.Rule, number(s.Before), number(s.After), s.Why)
	}
	explainGroups(w, r)
	explainAccount(w, r.Account)
	explainActions(w, r)
}

func explainSignals(w io.Writer, r autoscaler.Record, now time.Time) {
	fmt.Fprintln(w, "\nsignals")
	signal := func(app string, o decide.Opinion) {
		version := o.Version
		if version == "" {
			version = "shipped"
		}
		fmt.Fprintf(w, "  %-14s %s %s: %s", app, o.Signal, version, o.Verdict)
		if o.Verdict == decide.Value {
			fmt.Fprintf(w, " %s, in %v, %s ago", o.Request, o.Latency.Round(10*time.Microsecond), ago(r.At, o.At))
		}
		if o.Why != "" {
			fmt.Fprintf(w, " (%s)", o.Why)
		}
		if o.Explanation != "" && o.Explanation != o.Why {
			fmt.Fprintf(w, "; %s", o.Explanation)
		}
		fmt.Fprintln(w)
	}
	for _, app := range r.Case.Input.Apps {
		if app.Configured {
			signal(app.Name, app.Opinion)
		}
	}
	signal(sigproto.DefaultApp, r.Case.Input.Default)
	for _, app := range r.Detail.Apps {
		if app.Source == decide.FromSignal && len(app.Held) == 0 {
			continue
		}
		fmt.Fprintf(w, "  %-14s is served by %s: %s (%s)\n", app.App, server(app.Source), app.Request, app.Why)
	}
}

// server names, for people, who speaks for an app.
func server(s decide.Source) string {
	switch s {
	case decide.FromSignal:
		return "its signal"
	case decide.FromDefault:
		return "the default signal"
	case decide.FromHeld:
		return "its last good answer"
	}
	return "nobody"
}

func explainGroups(w io.Writer, r autoscaler.Record) {
	fmt.Fprintf(w, "\ngroups (joined %s of %s, target %s)\n", number(r.Snapshot.Joined), number(r.Snapshot.Fulfilled), number(r.Snapshot.Target))
	if r.Detail.Refused != "" {
		fmt.Fprintf(w, "  ! %s\n", r.Detail.Refused)
	}
	held := map[string]bool{}
	for _, q := range r.State.Quarantines {
		held[q.Group] = true
	}
	for _, share := range r.Detail.Distribution.Shares {
		if _, busy := r.Case.Busy[share.Group]; busy || held[share.Group] {
			fmt.Fprintf(w, "  %s %d (left alone)", share.Group, share.After)
		} else {
			fmt.Fprintf(w, "  %s", share)
		}
		if c := r.Detail.Committed[share.Group]; c > 0 {
			fmt.Fprintf(w, ", and %s on the way out", number(c))
		}
		fmt.Fprintln(w)
	}
	for _, q := range r.State.Quarantines {
		fmt.Fprintf(w, "  ! %s is left alone until %s: %s\n", q.Group, q.Until.Format(time.TimeOnly), q.Why)
	}
	for group, who := range r.Case.Busy {
		fmt.Fprintf(w, "  ! %s is left alone: %s\n", group, who)
	}
	if short := r.Detail.Distribution.Shortfall; short != 0 {
		fmt.Fprintf(w, "  ! %d could not be shared out: every group is at its bound, or left alone\n", short)
	}
	for _, kept := range r.Detail.Kept {
		fmt.Fprintf(w, "  %d nodes stay above the target: %s (%s first)\n", kept.Nodes, kept.Why, kept.First)
	}
}

// explainAccount prints what the groups' targets are made of.
func explainAccount(w io.Writer, account resolve.Entries) {
	if account == nil {
		return // the record is of schema 1
	}
	fmt.Fprintln(w, "\naccount of the targets, after the actions")
	var groups []string
	parts, sums := map[string][]string{}, map[string]float64{}
	for _, e := range account {
		text := fmt.Sprintf("%s %s", e.Kind, number(e.Weight))
		if e.Node != "" {
			text += " (" + e.Node + ")"
		}
		if parts[e.Group] == nil {
			groups = append(groups, e.Group)
		}
		parts[e.Group], sums[e.Group] = append(parts[e.Group], text), sums[e.Group]+e.Weight
	}
	for _, group := range groups {
		if group == "" {
			fmt.Fprintf(w, "  pool: %s\n", strings.Join(parts[group], ", "))
		} else {
			fmt.Fprintf(w, "  %s %s = %s\n", group, number(sums[group]), strings.Join(parts[group], " + "))
		}
	}
}

func explainActions(w io.Writer, r autoscaler.Record) {
	fmt.Fprintln(w, "\nasked of the provider")
	if len(r.Actions) == 0 {
		fmt.Fprintln(w, "  nothing")
	}
	for _, a := range r.Actions {
		line := []string{"  " + string(a.Op)}
		for _, part := range []string{a.Group, a.Node} {
			if part != "" {
				line = append(line, part)
			}
		}
		if a.Op == apply.OpSetTarget {
			line = append(line, fmt.Sprint(a.Target))
		}
		text := strings.Join(line, " ")
		if a.What != "" {
			text += " (" + a.What + ")"
		}
		if a.Latency > 0 {
			text += fmt.Sprintf(", in %v", a.Latency.Round(10*time.Microsecond))
		}
		if a.Error != "" {
			text += ": " + a.Error
		} else {
			text += ": ok"
		}
		fmt.Fprintln(w, text)
	}
	for _, d := range r.Drains {
		fmt.Fprintf(w, "  on the way out: %s of %s, %s since %s (%s)\n", d.Node, d.Group, d.State, d.Since.Format(time.TimeOnly), d.Reason)
	}
}

// number prints a capacity with no more digits than people want.
func number(x float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", x), "0"), ".")
}
