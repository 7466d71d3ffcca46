package simulation

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/record"
	"github.com/weirkeeper/weirkeeper/signals/signaltest"
	"github.com/weirkeeper/weirkeeper/sigproto"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// responseLimit is the real time of one response of a signal.
const responseLimit = 10 * time.Second

// program is a running signal. Virtual time stands still while it works.
type program struct {
	app    string
	limit  time.Duration
	client *sigproto.Client
	failed error // the first error of an evaluation
}

// Evaluate implements simulate.Client.
func (p *program) Evaluate(ctx context.Context, e sigproto.Evaluation) (sigproto.Response, error) {
	late := fmt.Errorf("no response within %v", p.limit)
	ctx, cancel := context.WithTimeoutCause(ctx, p.limit, late)
	defer cancel()
	r, err := p.client.Evaluate(ctx, e)
	if err != nil && p.failed == nil {
		if context.Cause(ctx) == late {
			err = fmt.Errorf("%w: the program hangs, or signals.%s.limit is too short for this host", late, p.app)
		}
		p.failed = fmt.Errorf("the run is not valid: signal of app %s: %w", p.app, err)
	}
	return r, err
}

// Close implements simulate.Client. The program runs until the end of the run.
func (p *program) Close() error { return nil }

// withSignals calls run with the scenario and the programs of its signals, each in a process of its own. If one of them fails, the
// result is not valid, and the error is that of the signal.
func (s scenario) withSignals(ctx context.Context, of simulate.Scenario, run func(context.Context, simulate.Scenario) (simulate.Result, error)) (simulate.Result, error) {
	apps := slices.Sorted(maps.Keys(s.file.Signals))
	if len(apps) == 0 {
		return run(ctx, of)
	}
	var err error
	if of.Samples, err = s.samplesOf(of.Pool); err != nil {
		return simulate.Result{}, err
	}
	of.Signals = map[string]simulate.Client{}
	var all []*program
	next := of.Sink
	of.Sink = func(r api.TickRecord) error {
		for _, p := range all {
			if p.failed != nil {
				return p.failed
			}
		}
		if next == nil {
			return nil
		}
		return next(r)
	}
	var result simulate.Result
	var start func(ctx context.Context, i int) error
	start = func(ctx context.Context, i int) (err error) {
		if i == len(apps) {
			result, err = run(ctx, of)
			return err
		}
		app := apps[i]
		target, err := s.target(app, of.Pool)
		if err != nil {
			return err
		}
		began := false
		err = signaltest.Running(ctx, target, func(ctx context.Context, client *sigproto.Client) error {
			p := &program{app: app, limit: cmp.Or(s.file.Signals[app].Limit, responseLimit), client: client}
			all, began = append(all, p), true
			of.Signals[app] = p
			return start(ctx, i+1)
		})
		if err != nil && !began {
			err = fmt.Errorf("the run is not valid: signal of app %s: %w", app, err)
		}
		return err
	}
	err = start(ctx, 0)
	return result, err
}

// fetch fetches the releases that the scenario names, and lets their programs be those of the signals.
func (s scenario) fetch(ctx context.Context, cli *connect.CLI) error {
	var from func(context.Context, release.Ref) (release.Installed, error)
	for _, app := range slices.Sorted(maps.Keys(s.file.Signals)) {
		one := s.file.Signals[app]
		if one.Release == "" {
			continue
		}
		ref, err := release.ParseRef(one.Release)
		if err == nil && from == nil {
			from, err = cli.Releases(ctx, nil)
		}
		var in release.Installed
		if err == nil {
			in, err = from(ctx, ref)
		}
		if err == nil && len(in.Args) > 0 {
			err = errors.New("it needs an interpreter: unpack it, and name its program")
		}
		if err != nil {
			return s.file.Problem("signals."+app+".release", err.Error())
		}
		one.Program = []string{filepath.Join(in.Dir, filepath.FromSlash(in.Entry))}
		s.file.Signals[app] = one
	}
	return nil
}

// target returns the program of an app, with the parameters of the pool's file.
func (s scenario) target(app string, pool simulate.Policy) (signaltest.Target, error) {
	command := s.file.Signals[app].Program
	t := signaltest.Target{Path: s.path(command[0]), Args: command[1:], App: app}
	if info, err := os.Stat(t.Path); err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return t, s.file.Problem("signals."+app+".program", t.Path+" is not an executable file: build it, or name another program")
	}
	path, err := filepath.Abs(t.Path)
	if err != nil {
		return t, err
	}
	t.Path = path
	for _, a := range pool.Apps {
		if a.App == app && a.Name != "" {
			t.Hello = sigproto.Hello{Cluster: pool.Cluster, Pool: pool.Pool, Parameters: a.Parameters}
			return t, nil
		}
	}
	return t, s.file.Problem("signals."+app, "the pool's file has no signal of that app: add it to autoscale_signals, with its metrics and parameters")
}

// samplesOf returns the samples as the windows of a pool read them.
func (s scenario) samplesOf(pool simulate.Policy) ([]metrics.Sample, error) {
	windows := map[string]metrics.Sample{} // by the name of an application metric: a sample without time and value
	patterns := false
	for _, a := range pool.Apps {
		for _, w := range a.Windows {
			name, list, _ := strings.Cut(w.Name, "|")
			patterns = patterns || w.Regex
			of := metrics.Sample{Type: w.Type, Name: metrics.AppName(a.App, name)}
			if w.Type != metrics.App {
				of.Name, of.Dimensions = name, metrics.Dimensions{"cluster": pool.Cluster, "pool": pool.Pool}
				if w.App != "" {
					of.Dimensions["app"] = w.App
				}
			}
			for pair := range strings.SplitSeq(list, ",") {
				if key, value, ok := strings.Cut(pair, "="); ok {
					of.Dimensions = maps.Clone(of.Dimensions)
					if of.Dimensions == nil {
						of.Dimensions = metrics.Dimensions{}
					}
					of.Dimensions[key] = value
				}
			}
			windows[metrics.AppName(a.App, name)] = of
		}
	}
	out := slices.Clone(s.samples)
	for i := range out {
		of, read := windows[out[i].Name]
		if !read && patterns {
			continue // an application metric that a regular expression may match
		}
		if !read {
			app := metrics.AppOf(out[i].Name)
			return nil, fmt.Errorf("%s:1: metric %s: no window of the signals in the pool's file reads it: remove its column, or add it to required_metrics of app %s",
				s.file.Signals[app].Metrics, strings.TrimPrefix(out[i].Name, app+","), app)
		}
		of.Time, of.Value = out[i].Time, out[i].Value
		out[i] = of
	}
	for _, one := range s.windows {
		if _, of := one.Dimensions["pool"]; of {
			one.Dimensions = maps.Clone(one.Dimensions)
			one.Dimensions["cluster"], one.Dimensions["pool"] = pool.Cluster, pool.Pool
		}
		out = append(out, one)
	}
	slices.SortStableFunc(out, func(a, b metrics.Sample) int { return a.Time.Compare(b.Time) })
	return out, nil
}

// readSamples reads the metrics of all signals: columns as application metrics, and recorded windows as they are.
func (s *scenario) readSamples() error {
	for _, app := range slices.Sorted(maps.Keys(s.file.Signals)) {
		name := s.file.Signals[app].Metrics
		data, err := inputfile.Read(s.path(name), maxInput)
		if err != nil {
			return err
		}
		parse, to := parseSamples, &s.samples
		if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
			parse, to = parseWindows, &s.windows
		}
		samples, err := parse(name, app, data)
		if err != nil {
			return err
		}
		*to = append(*to, samples...)
	}
	return nil
}

// parseWindows parses the output of "weir metrics get --output json". The errors name the file and the line.
func parseWindows(name, app string, data []byte) (out []metrics.Sample, err error) {
	for w, err := range record.Read(bytes.NewReader(data)) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w; want a line of \"weir metrics get --output json\"", name, err)
		}
		if of := metrics.AppOf(w.Name); w.Type == metrics.App && of != app {
			return nil, fmt.Errorf("%s: %s belongs to app %s, and the signal is that of app %s: record its metrics with \"weir metrics get --app %s\"", name, w.Name, of, app, app)
		}
		for i, at := range w.Times {
			out = append(out, metrics.Sample{Type: w.Type, Name: w.Name, Dimensions: w.Dimensions, Time: time.Unix(at, 0).UTC(), Value: w.Values[i]})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: it has no sample: record a longer range", name)
	}
	return out, nil
}

// parseSamples parses CSV with the column time and a column for each metric. An empty cell is no sample. The errors name the file and
// the line.
func parseSamples(name, app string, data []byte) (out []metrics.Sample, err error) {
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
	r.TrimLeadingSpace = true
	head, err := r.Read()
	if err != nil || len(head) < 2 || head[0] != "time" {
		return nil, errors.Join(fmt.Errorf("%s:1: want the columns time and one for each metric of app %s", name, app), err)
	}
	before := time.Time{}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read metrics %s: %w", name, err)
		}
		line, _ := r.FieldPos(0)
		at, err := simulate.ParseTime(row[0])
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		if !at.After(before) {
			return nil, fmt.Errorf("%s:%d: time %s does not follow %s: sort the rows, and remove repeated ones", name, line, at.Format(time.RFC3339), before.Format(time.RFC3339))
		}
		before = at
		for i, text := range row[1:] {
			if text = strings.TrimSpace(text); text == "" {
				continue
			}
			value, err := simulate.ParseNumber(head[i+1], text)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", name, line, err)
			}
			out = append(out, metrics.Sample{Type: metrics.App, Name: metrics.AppName(app, head[i+1]), Time: at, Value: value})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s:1: it has no sample: add rows below the columns", name)
	}
	return out, nil
}
