package apps

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

var update = flag.Bool("update", false, "rewrite the answers of the scenarios")

// TestScenarios runs testdata/*.txtar: events as input, nudges and findings as output, under
// virtual time. The machine leads from the start, and delays have no noise. The commands:
//
//	config NAME=VALUE ...                  first of all: starter, giveup_crash_number, ...
//	bus up | bus down | canary
//	app NAME INSTANCES VERSION [POOL] [state=S] [package=S] [one_shot=RETRIES]     the row of an app
//	unreadable NAME | delete NAME | updated NAME
//	begin | complete [VALID_FOR] | failed WHY | lost WHY
//	node NAME [APP/INDEX=INSTANCE[@VERSION][:STATE][~SINCE] ...]
//	                                       a heartbeat now and every 10 s
//
//	nodes FROM TO APP                       node nI with APP/I=i, for each I
//	silence NAME ...                       no more heartbeats.
//
//	exit INSTANCE APP/INDEX[@VERSION] REASON [STATUS] [again]     again: the node repeats it
//	raw JSON                               the bytes of a heartbeat
//	nudged APP INDEX | nudgedstop APP INSTANCE     by another harmonizer
//	waits POOL APP VERSION [INDEX ...]     the scheduler reports waiting starts of the app,
//	                                       now and every 10 s
//	follow | release | retry APP INDEX
//
//	takeover [NODE=COPIES ...]             a new machine leads, with the rows and
//	                                       with the memory of this one
//
//	pass DURATION                          a second at a time, with a tick each
//	counts POOL | explain APP | crashes APP | limit
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := newScenario().run(t, string(archive.Files[0].Data))
			if *update {
				archive.Files = []txtar.File{archive.Files[0], {Name: "out", Data: []byte(got)}}
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := string(archive.Files[1].Data); got != want {
				t.Errorf("answers differ (-want +got), rewrite with -update:\n%s", cmp.Diff(want, got))
			}
		})
	}
}

type scenario struct {
	cfg   Config
	m     *Machine
	now   time.Time
	nodes map[string]*scenarioNode
	rows  map[string]api.App
	out   strings.Builder

	waiting    map[string]Confirmed // app -> report of its waiting starts
	reportedAt time.Time
}

type scenarioNode struct {
	beats []api.Beat
	next  time.Time
}

func start() time.Time { return time.Unix(1000, 0) }

// steady returns the defaults without noise.
func steady() Config { return Config{DelayTimeNoise: new(time.Duration(0))}.WithDefaults() }

func newScenario() *scenario {
	return &scenario{cfg: steady(), now: start(), nodes: map[string]*scenarioNode{}, rows: map[string]api.App{}, waiting: map[string]Confirmed{}}
}

func (s *scenario) run(t *testing.T, script string) string {
	for line := range strings.Lines(script) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
		if fields := strings.Fields(line); len(fields) > 0 {
			fmt.Fprintf(&s.out, "> %s\n", strings.TrimSpace(line))
			if err := s.command(fields[0], fields[1:], line); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
	}
	return s.out.String()
}

func (s *scenario) command(verb string, args []string, line string) error {
	if verb == "config" {
		return s.configure(args)
	}
	if s.m == nil {
		s.m = NewMachine(s.cfg)
		s.step(Lead{})
	}
	rest := strings.Join(args, " ")
	switch verb {
	case "bus":
		if args[0] == "up" {
			s.step(BusUp{})
		} else {
			s.step(BusDown{})
		}
	case "app":
		return s.app(args)
	case "exit":
		b, err := parseBeat(args[1] + "=" + args[0])
		if err != nil {
			return err
		}
		e := api.Exited{App: b.App, Index: b.Index, Version: b.Version, Instance: args[0], Reason: api.ExitReason(args[2])}
		if len(args) > 3 {
			status, err := strconv.Atoi(args[3])
			if err != nil {
				return err
			}
			e.Status, e.CrashedAt, e.Repeated = &status, s.now.Unix(), len(args) > 4
		}
		s.step(Exit{Exited: e})
	case "nudged":
		index, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		s.step(Nudged{Nudge{Start: &api.Start{App: args[0], Version: s.rows[args[0]].Version, Indices: []int{index}}}})
	case "nudgedstop":
		s.step(Nudged{Nudge{Stop: &api.Stop{App: args[0], Instances: map[string]string{args[1]: "v1"}}}})
	case "waits":
		return s.waits(args)
	case "retry":
		index, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		s.step(Retry{args[0], index})
	case "pass", "complete":
		return s.timed(verb, args)
	case "node", "nodes", "silence":
		return s.beats(verb, args)
	default:
		return s.plain(verb, rest, line)
	}
	return nil
}

// plain executes the commands with at most one argument.
func (s *scenario) plain(verb, arg, line string) error {
	switch verb {
	case "canary":
		s.step(LoopbackProbe{})
	case "unreadable":
		s.step(ExpectedUnreadable{arg})
	case "delete":
		s.step(ExpectedGone{arg})
		delete(s.rows, arg)
	case "updated":
		s.step(Updated{arg})
	case "begin":
		s.step(ExpectedBegin{})
	case "failed":
		s.step(ExpectedFailed{arg})
	case "lost":
		s.step(ExpectedLost{arg})
	case "follow":
		s.step(Follow{})
	case "release":
		s.step(Release{})
	case "raw":
		s.step(Heartbeat{Data: []byte(strings.TrimPrefix(line, "raw "))})
	case "takeover":
		return s.takeover(strings.Fields(arg))
	case "counts":
		s.counts(arg)
	case "explain":
		s.explain(arg)
	case "crashes":
		for _, c := range s.m.View().Crashes(arg) {
			fmt.Fprintf(&s.out, "  %s %s/%d of %s, received at %v\n", c.Reason, arg, c.Index, c.Instance, c.At.Sub(start()))
		}
	case "limit":
		b := s.m.View().DisruptionLimit()
		fmt.Fprintf(&s.out, "  limit %q nodes=%d indices=%d share=%.2f missing=%d release_at=%d\n", b.State, b.Nodes, b.Indices, b.Share, b.Missing, b.ReleaseAt)
		if b.RowsGone > 0 {
			fmt.Fprintf(&s.out, "  rows gone: %d of %d, since %v\n", b.RowsGone, b.RowsOf, b.RowsSince.Sub(start()))
		}
		if b.RowsStopped > 0 {
			fmt.Fprintf(&s.out, "  rows stopped: %d of %d, since %v, needs release %v\n", b.RowsStopped, b.RowsStoppedOf,
				b.RowsStoppedSince.Sub(start()), b.NeedsRelease)
		}
		if b.WithoutRow > 0 {
			fmt.Fprintf(&s.out, "  copies without a row: %d of %d, since %v\n", b.WithoutRow, b.WithoutRowOf, b.RowsSince.Sub(start()))
		}
	default:
		return fmt.Errorf("unknown command %q", verb)
	}
	return nil
}

func (s *scenario) configure(args []string) (err error) {
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "starter":
			s.cfg.Starter = Starter(value)
		case "stops_whole_apps":
			s.cfg.StopsWholeApps, err = strconv.ParseBool(value)
		case "cc_partition":
			s.cfg.Partition = value
		case "giveup_crash_number":
			n, _ := strconv.Atoi(value)
			s.cfg.GiveupCrashNumber = &n
		case "queue_batch_size":
			s.cfg.QueueBatchSize, err = strconv.Atoi(value)
		case "disruption_limit_floor":
			s.cfg.DisruptionFloor = new(0)
			*s.cfg.DisruptionFloor, err = strconv.Atoi(value)
		case "disruption_limit":
			s.cfg.DisruptionLimit, err = strconv.ParseFloat(value, 64)
		default:
			return fmt.Errorf("unknown number %q", name)
		}
	}
	if err != nil {
		return err
	}
	return s.cfg.Validate()
}

func (s *scenario) app(args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	row := api.App{Name: args[0], Instances: n, Version: args[2], Pool: "default", Command: "run", CPUs: 0.5, Mem: 64, Updated: s.now}
	for _, arg := range args[3:] {
		switch name, value, ok := strings.Cut(arg, "="); {
		case !ok:
			row.Pool = arg
		case name == "state":
			row.State = api.AppState(value)
		case name == "package":
			row.Package = api.PackageState(value)
		case name == "one_shot":
			row.OneShot, row.Retries = true, new(0)
			if *row.Retries, err = strconv.Atoi(value); err != nil {
				return err
			}
		}
	}
	if old, known := s.rows[row.Name]; known { // as "weir app set" does
		row.History = old.WithVersion(row.Live()).History
	}
	s.rows[row.Name] = row
	s.step(ExpectedRows{[]api.App{row}})
	return nil
}

func (s *scenario) timed(verb string, args []string) error {
	var d time.Duration
	var err error
	if len(args) > 0 {
		if d, err = time.ParseDuration(args[0]); err != nil {
			return err
		}
	}
	if verb == "pass" {
		s.pass(d)
	} else {
		s.step(ExpectedComplete{d})
	}
	return nil
}

func (s *scenario) beats(verb string, args []string) error {
	switch verb {
	case "node":
		return s.node(args)
	case "silence":
		for _, name := range args {
			delete(s.nodes, name)
		}
	case "nodes":
		from, _ := strconv.Atoi(args[0])
		to, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		for i := from; i <= to; i++ {
			if err := s.node([]string{fmt.Sprintf("n%d", i), fmt.Sprintf("%s/%d=%s%d", args[2], i, args[2], i)}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *scenario) node(args []string) error {
	n := &scenarioNode{}
	for _, arg := range args[1:] {
		b, err := parseBeat(arg)
		if err != nil {
			return err
		}
		n.beats = append(n.beats, b)
	}
	s.nodes[args[0]] = n
	s.beat(args[0])
	return nil
}

// parseBeat parses APP/INDEX[@VERSION]=INSTANCE[@VERSION][:STATE][~SINCE][!]. With "!" the copy is not ready.
func parseBeat(arg string) (api.Beat, error) {
	where, id, _ := strings.Cut(arg, "=")
	b := api.Beat{Partition: "default", Version: "v1", State: api.CopyRunning}
	id, b.Unready = strings.CutSuffix(id, "!")
	if head, since, ok := strings.Cut(id, "~"); ok {
		id = head
		b.Since, _ = strconv.ParseFloat(since, 64)
	}
	if head, version, ok := strings.Cut(where, "@"); ok {
		where, b.Version = head, version
	}
	if head, state, ok := strings.Cut(id, ":"); ok {
		id, b.State = head, api.CopyState(state)
	}
	if head, version, ok := strings.Cut(id, "@"); ok {
		id, b.Version = head, version
	}
	app, index, _ := strings.Cut(where, "/")
	n, err := strconv.Atoi(index)
	b.App, b.Index, b.Instance = app, n, id
	return b, err
}

func beat(node string, beats ...api.Beat) Heartbeat {
	if beats == nil {
		beats = []api.Beat{}
	}
	data, err := json.Marshal(api.Heartbeat{Node: node, Beats: beats})
	if err != nil {
		panic(err)
	}
	return Heartbeat{Data: data}
}

func (s *scenario) waits(args []string) error {
	w := api.WaitingStart{App: args[1], Version: args[2]}
	for _, arg := range args[3:] {
		index, err := strconv.Atoi(arg)
		if err != nil {
			return err
		}
		w.Indices = append(w.Indices, index)
	}
	delete(s.waiting, w.App)
	if len(w.Indices) > 0 {
		s.waiting[w.App] = Confirmed{Pool: args[0], Waiting: []api.WaitingStart{w}}
	}
	s.report()
	return nil
}

func (s *scenario) report() {
	s.reportedAt = s.now
	for _, app := range slices.Sorted(maps.Keys(s.waiting)) {
		s.step(s.waiting[app])
	}
}

func (s *scenario) beat(name string) {
	n := s.nodes[name]
	n.next = s.now.Add(10 * time.Second)
	s.step(beat(name, n.beats...))
}

func (s *scenario) pass(d time.Duration) {
	for end := s.now.Add(d); s.now.Before(end); {
		s.now = s.now.Add(time.Second)
		for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
			if !s.nodes[name].next.After(s.now) {
				s.beat(name)
			}
		}
		if s.now.Sub(s.reportedAt) >= 10*time.Second {
			s.report()
		}
		s.step(Tick{})
	}
}

// takeover makes a new machine lead. It gets only the memory of the old machine, and the rows.
func (s *scenario) takeover(nodes []string) error {
	lead := Lead{Memories: s.m.Memories(), Nodes: map[message.Node]int{}}
	for _, arg := range nodes {
		name, copies, _ := strings.Cut(arg, "=")
		n, err := strconv.Atoi(copies)
		if err != nil {
			return err
		}
		lead.Nodes[message.Node{Name: name}] = n
	}
	s.m = NewMachine(s.cfg)
	s.step(BusUp{})
	for _, name := range slices.Sorted(maps.Keys(s.rows)) {
		s.step(ExpectedRows{[]api.App{s.rows[name]}})
	}
	s.step(ExpectedComplete{})
	s.step(lead)
	return nil
}

func (s *scenario) step(ev Event) {
	nudges, findings := s.m.Step(s.now, ev)
	at := s.now.Sub(start()).Seconds()
	for _, f := range findings {
		if f.Kind != api.AppFindingStart && f.Kind != api.AppFindingStop { // the nudges show these
			fmt.Fprintf(&s.out, "  %3.0fs  %s\n", at, plainly(f))
		}
	}
	for _, n := range nudges {
		fmt.Fprintf(&s.out, "  %3.0fs  %s\n", at, describe(n))
	}
}

// plainly returns a finding with its deadline in seconds of the scenario.
func plainly(f api.AppFinding) string {
	until := f.Until
	f.Until = time.Time{}
	line := f.String()
	if !until.IsZero() {
		line += fmt.Sprintf(" until %.0fs", until.Sub(start()).Seconds())
	}
	return line
}

func describe(n Nudge) string {
	if n.Start != nil {
		s := fmt.Sprintf("START %s %v version=%s running=%v", n.Start.App, n.Start.Indices, n.Start.Version, n.Start.Running)
		if n.Start.Flapping {
			s += " flapping"
		}
		return s
	}
	return fmt.Sprintf("STOP  %s %v", n.Stop.App, n.Stop.Instances)
}

func (s *scenario) counts(pool string) {
	c := s.m.View().Counts(s.now, pool)
	fmt.Fprintf(&s.out, "  complete=%v %s\n", c.Complete, c.Why)
	for _, name := range slices.Sorted(maps.Keys(c.Apps)) {
		fmt.Fprintf(&s.out, "  %s %+v\n", name, c.Apps[name])
	}
}

func (s *scenario) explain(name string) {
	e, ok := s.m.View().Explain(s.now, name)
	if !ok {
		fmt.Fprintf(&s.out, "  unknown\n")
	}
	for _, i := range e.Indices {
		fmt.Fprintf(&s.out, "  %s/%d", name, i.Index)
		for _, c := range i.Instances {
			fmt.Fprintf(&s.out, " %s:%s", c.ID, c.State)
			if c.Extra != "" {
				fmt.Fprintf(&s.out, "(%s, waits for %s%s)", c.Extra, c.Rule, s.until(c.Until))
			}
		}
		if i.Rule != "" {
			fmt.Fprintf(&s.out, " waits for %s (%s)%s", i.Rule, i.Why, s.until(i.Until))
		}
		if i.Last != nil {
			fmt.Fprintf(&s.out, "; last: %s", plainly(*i.Last))
		}
		fmt.Fprintln(&s.out)
	}
}

func (s *scenario) until(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return fmt.Sprintf(" until %.0fs", at.Sub(start()).Seconds())
}
