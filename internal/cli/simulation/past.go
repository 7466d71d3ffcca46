package simulation

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// past is a recording with the number of records that this weir cannot read.
type past struct {
	simulate.Recording
	unreadable int
	demand     bool // summaries do where there are no records
}

// check returns why the recording is of no use, with what to do.
func (p *past) check() error {
	if p.demand {
		return p.CheckSeries()
	}
	return p.Check()
}

// isFile reports whether a source of records is a file of JSON lines, and not a pool.
func isFile(from string) bool {
	info, err := os.Stat(from)
	return strings.HasSuffix(from, ".jsonl") || err == nil && info.Mode().IsRegular()
}

// readPast reads the recorded ticks of the command's pool since then, or those of a file of records.
func readPast(ctx context.Context, cli *connect.CLI, file string, since time.Duration) (*past, error) {
	return (&past{}).fill(ctx, cli, file, since)
}

// readDemand is readPast, with the summaries of the ticks for which there are no records any more.
func readDemand(ctx context.Context, cli *connect.CLI, file string, since time.Duration) (*past, error) {
	return (&past{demand: true}).fill(ctx, cli, file, since)
}

func (p *past) fill(ctx context.Context, cli *connect.CLI, file string, since time.Duration) (*past, error) {
	if file == "" {
		err := cli.OnBus(ctx, func(ctx context.Context, b *bus.Bus) error { return p.read(ctx, cli, b, since) })
		if err == nil {
			err = p.check()
		}
		return p, err
	}
	in, err := inputfile.Open(file)
	if err != nil {
		return p, usage.New(err)
	}
	defer in.Close()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, history.MaxRecord)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if err := p.line(fmt.Sprintf("%s:%d", file, n), line); err != nil {
			return p, usage.New(err)
		}
	}
	if err := errors.Join(lines.Err(), p.check()); err != nil {
		return p, usage.New(fmt.Errorf("%s: %w", file, err))
	}
	return p, nil
}

// line adds a line of a file.
func (p *past) line(where string, line []byte) error {
	if history.IsSummary(line) {
		s, err := history.ReadPrintedSummary(line)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", where, err)
		case !p.demand:
			return fmt.Errorf("%s: it is a summary, which has no machines: give records, as \"weir explain --since 1h --output json\" prints them without --summary", where)
		}
		return p.AddSummary(where, s)
	}
	r, err := history.ReadPrinted(line)
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	return p.Add(where, r)
}

// read reads the ledger. Each tick has the time of --timeout to arrive.
func (p *past) read(ctx context.Context, cli *connect.CLI, b *bus.Bus, since time.Duration) (err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	late := time.AfterFunc(cli.Timeout, func() { end(context.DeadlineExceeded) })
	defer late.Stop()
	found := false
	pool := history.Pool{JS: b.JetStream(), Cluster: cli.Cluster, Pool: cli.Pool}
	from := time.Now().Add(-since)
	p.unreadable, err = pool.Records(ctx, from, time.Time{}, func(r api.TickRecord) error {
		found = true
		late.Reset(cli.Timeout)
		return p.Add("", r)
	})
	if err == nil && p.demand {
		until := time.Now()
		if first, _ := p.Span(); !first.IsZero() {
			until = first.Add(-1)
		}
		_, err = pool.Summaries(ctx, from, until, func(s api.Summary) error {
			found = true
			late.Reset(cli.Timeout)
			return p.AddSummary("", s)
		})
	}
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	if err == nil && !found && p.unreadable == 0 {
		last, errLast := view.Last(ctx, b, cli.Cluster, cli.Pool)
		if errLast != nil {
			return errLast
		}
		return fmt.Errorf("pool %s/%s has no tick since then: its last tick was at %s", cli.Cluster, cli.Pool, explain.When(time.Now(), last.At))
	}
	return err
}

// replay prints the comparison of a recorded pool with its replay. It returns an error if less than that part of the ticks is the same.
func (cli *commands) replay(ctx context.Context, f flags) error {
	p, err := readPast(ctx, cli.CLI, f.file, f.since)
	if err != nil {
		return err
	}
	var rows [][]string
	sum, err := simulate.Replay(ctx, &p.Recording, func(one api.ReplayedTick) error {
		if cli.Output == command.FormJSON {
			return cli.PrintNext(one)
		}
		rows = append(rows, []string{explain.Time(one.At), explain.Number(one.Target), explain.Number(one.Replayed), targets(one.Groups), targets(one.ReplayedGroups), one.Cause})
		return nil
	})
	if err != nil {
		return err
	}
	sum.Skipped += p.unreadable
	share := 100 * float64(sum.Same) / float64(max(1, sum.Ticks))
	if cli.Output == command.FormJSON {
		err = cli.PrintNext(sum)
	} else {
		if len(rows) > 0 {
			cli.PrintTable([]string{"time", "target", "replayed", "groups", "replayed groups", "cause"}, rows)
		}
		fmt.Fprintf(cli.Stdout, "pool %s/%s, %s to %s: %d of %d ticks (%.2f %%) have the same target and the same targets of all groups\n",
			sum.Cluster, sum.Pool, explain.Time(sum.From), explain.Time(sum.To), sum.Same, sum.Ticks, share)
		for _, note := range notes(sum.Notes, sum.Skipped) {
			fmt.Fprintln(cli.Stdout, note)
		}
	}
	if err == nil && share < f.atLeast {
		err = fmt.Errorf("%.2f %% of the ticks are the same, want at least %v %%: the column cause names the differences", share, f.atLeast)
	}
	return err
}

// notes returns what a comparison leaves out.
func notes(notes []string, skipped int) []string {
	if skipped > 0 {
		notes = append(slices.Clone(notes), fmt.Sprintf("%d more records have no decision that can be repeated", skipped))
	}
	return notes
}

// targets returns the targets of groups as a text: "blue 3, red 2".
func targets(groups map[string]int) string {
	var all []string
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		all = append(all, fmt.Sprintf("%s %d", id, groups[id]))
	}
	return strings.Join(all, ", ")
}
