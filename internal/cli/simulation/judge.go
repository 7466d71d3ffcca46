package simulation

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// defaultBound is by how much a number may get worse, in percent.
const defaultBound = 5

// numbers are the names of the compared numbers.
var numbers = [...]string{"cost", "unmet", "wait", "disruption"}

// Compare replays the records with the recorded policy and with that of the pool's file, and prints four numbers of both. It returns
// an error if one of them gets worse by more than its bound.
func Compare(ctx context.Context, cli *connect.CLI, c command.Comparison, poolFile string) error {
	bounds, err := parseBounds(c.Bounds)
	if err != nil {
		return usage.New(err)
	}
	file, since := "", time.Duration(0)
	if at, err := command.ParseTime(c.Against, time.Now()); err == nil {
		since = time.Since(at)
	} else if file = c.Against; !isFile(file) {
		return usage.New(fmt.Errorf("--against %q: want a time such as 7d, or a file of records: %w", c.Against, err))
	}
	policy, err := scenario{}.readPool(poolFile)
	if err != nil {
		return usage.New(err)
	}
	p, err := readPast(ctx, cli, file, since)
	if err != nil {
		return err
	}
	before, after, err := p.Judge(policy.config)
	if err != nil {
		return err
	}
	unpriced, err := setPrices(&before, &after, filepath.Dir(filepath.Dir(poolFile)), c.Prices)
	if err != nil {
		return usage.New(err)
	}
	if err := errors.Join(before.Validate(), after.Validate()); err != nil {
		return usage.New(err)
	}
	results, err := both(ctx, before, after)
	if err != nil {
		return err
	}
	out := compare(results, bounds, before.Prices != nil)
	out.Cluster, out.Pool, out.Notes = cli.Cluster, cli.Pool, notes(p.Notes(), p.unreadable)
	if unpriced != "" {
		out.Notes = append(slices.Clone(out.Notes), unpriced)
	}
	return (&commands{cli}).printCheck(out)
}

// setPrices sets the prices of two scenarios: those of a table, or those of the weir.yaml of a folder if they have each market. Otherwise
// it returns why not.
func setPrices(before, after *simulate.Scenario, dir, table string) (unpriced string, err error) {
	prices, err := config.PricesOf(dir, table)
	before.Prices, after.Prices = prices, prices
	if err != nil || prices == nil || table != "" {
		return "", err
	}
	if why := errors.Join(before.Validate(), after.Validate()); why != nil {
		before.Prices, after.Prices = nil, nil
		return "the cost is what the machines offered, because a price of weir.yaml is missing: " + decide.OneLine(why.Error()), nil
	}
	return "", nil
}

func parseBounds(texts []string) (map[string]float64, error) {
	out := map[string]float64{}
	for _, name := range numbers {
		out[name] = defaultBound
	}
	for _, text := range texts {
		name, value, _ := strings.Cut(text, "=")
		percent, err := strconv.ParseFloat(strings.TrimSuffix(value, "%"), 64)
		if !slices.Contains(numbers[:], name) || err != nil || !(percent >= 0) {
			return nil, fmt.Errorf("--bound %q: want NAME=PERCENT, such as cost=2%%; names are %s", text, strings.Join(numbers[:], ", "))
		}
		out[name] = percent
	}
	return out, nil
}

// both runs two scenarios side by side.
func both(ctx context.Context, before, after simulate.Scenario) (results [2]simulate.Result, err error) {
	var errs [2]error
	var running sync.WaitGroup
	for i, s := range []simulate.Scenario{before, after} {
		running.Go(func() { results[i], errs[i] = simulate.Run(ctx, s) })
	}
	running.Wait()
	return results, errors.Join(errs[:]...)
}

// compare returns the four numbers of the two results.
func compare(results [2]simulate.Result, bounds map[string]float64, priced bool) api.PolicyCheck {
	was, is := results[0], results[1]
	kind := resource.CPUs
	for _, k := range resource.Kinds() {
		if was.Wanted[kind] == 0 && was.Wanted[k] > 0 {
			kind = k
		}
	}
	hours := strings.TrimSuffix(kind.String(), "s") + "-hours"
	out := api.PolicyCheck{From: was.From, To: was.To, Ticks: was.Ticks}
	add := func(name, unit string, before, after float64) {
		n := api.PolicyNumber{Name: name, Unit: unit, Before: before, After: after, Bound: bounds[name] / 100}
		n.Worse = after > before*(1+n.Bound)+resource.Slack
		out.Numbers = append(out.Numbers, n)
	}
	if priced {
		add("cost", "of the prices", was.Cost.Float(), is.Cost.Float())
	} else {
		add("cost", "offered "+hours, was.Offered[kind], is.Offered[kind])
	}
	add("unmet", hours, was.Unmet[kind], is.Unmet[kind])
	add("wait", "s", was.Waited.Seconds(), is.Waited.Seconds())
	add("disruption", "machines removed", float64(was.Removed), float64(is.Removed))
	return out
}

// printCheck prints the comparison. It returns an error if a number is worse.
func (cli *commands) printCheck(out api.PolicyCheck) error {
	var worse []string
	var rows [][]string
	for _, n := range out.Numbers {
		change, verdict := "-", "ok"
		if n.Before > 0 {
			change = fmt.Sprintf("%+.1f %%", 100*(n.After/n.Before-1))
		}
		if n.Worse {
			worse, verdict = append(worse, n.Name), "worse"
		}
		value := func(x float64) string {
			if n.Unit == "s" {
				return seconds.Short(time.Duration(x * float64(time.Second)).Round(time.Second))
			}
			return strconv.FormatFloat(math.Round(100*x)/100, 'f', -1, 64) + " " + n.Unit
		}
		rows = append(rows, []string{n.Name, value(n.Before), value(n.After), change, fmt.Sprintf("%+.1f %%", 100*n.Bound), verdict})
	}
	if cli.Output == command.FormJSON {
		if err := cli.PrintJSON(out); err != nil {
			return err
		}
	} else {
		cli.PrintTable([]string{"number", "recorded policy", "new policy", "change", "bound", "verdict"}, rows)
		fmt.Fprintf(cli.Stdout, "pool %s/%s, %d ticks from %s to %s, both policies with the recorded requests, launch times and losses\n",
			out.Cluster, out.Pool, out.Ticks, stamp(out.From), stamp(out.To))
		for _, note := range out.Notes {
			fmt.Fprintln(cli.Stdout, note)
		}
	}
	if len(worse) > 0 {
		return fmt.Errorf("the new policy is worse by more than its bound: %s", strings.Join(worse, ", "))
	}
	return nil
}
