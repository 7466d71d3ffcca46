package apps

import (
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

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

var update = flag.Bool("update", false, "rewrite the answers of the scenarios")

// TestScenarios runs testdata/*.txtar: events in, nudges and findings out, under
// virtual time. The commands:
//
//	bus up | bus down
//	app NAME INSTANCES VERSION [POOL]      the row of an app
//	unreadable NAME | delete NAME
//	complete | lost WHY
//	node NAME [APP/INDEX=INSTANCE[@VERSION][:STATE] ...]
//	                                       beats now and then each 10 s
//	silence NAME                           beats no more
//	exit INSTANCE APP/INDEX[@VERSION] REASON
//	raw JSON                               a heartbeat as it comes from the bus
//	pass DURATION                          a second at a time, with a tick each
//	counts POOL
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
	m     *Machine
	now   time.Time
	nodes map[string]*scenarioNode
	out   strings.Builder
}

type scenarioNode struct {
	beats []message.Beat
	next  time.Time
}

func start() time.Time { return time.Unix(1000, 0) }

func newScenario() *scenario {
	return &scenario{m: NewMachine(Config{}.WithDefaults()), now: start(), nodes: map[string]*scenarioNode{}}
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
	switch verb {
	case "bus":
		if args[0] == "up" {
			s.step(BusUp{})
		} else {
			s.step(BusDown{})
		}
	case "app":
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		row := message.App{Name: args[0], Instances: n, Version: args[2], Pool: "default", Command: "run", CPUs: 0.5, Mem: 64}
		if len(args) > 3 {
			row.Pool = args[3]
		}
		s.step(ExpectedApp{row})
	case "unreadable":
		s.step(ExpectedUnreadable{args[0]})
	case "delete":
		s.step(ExpectedGone{args[0]})
	case "complete":
		s.step(ExpectedComplete{})
	case "lost":
		s.step(ExpectedLost{strings.Join(args, " ")})
	case "node":
		return s.node(args)
	case "silence":
		delete(s.nodes, args[0])
	case "exit":
		b, err := parseBeat(args[1] + "=" + args[0])
		if err != nil {
			return err
		}
		s.step(Exit{message.Exited{App: b.App, Index: b.Index, Version: b.Version, Instance: args[0], Reason: message.Reason(args[2])}})
	case "raw":
		hb, err := message.DecodeHeartbeat([]byte(strings.TrimPrefix(line, "raw ")))
		if err != nil {
			fmt.Fprintf(&s.out, "  dropped: %v\n", err)
			return nil
		}
		s.step(Heartbeat{hb})
	case "pass":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			return err
		}
		s.pass(d)
	case "counts":
		s.counts(args[0])
	default:
		return fmt.Errorf("unknown command %q", verb)
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

// parseBeat reads APP/INDEX[@VERSION]=INSTANCE[@VERSION][:STATE].
func parseBeat(arg string) (message.Beat, error) {
	where, id, _ := strings.Cut(arg, "=")
	b := message.Beat{Version: "v1", State: message.Running}
	if head, version, ok := strings.Cut(where, "@"); ok {
		where, b.Version = head, version
	}
	if head, state, ok := strings.Cut(id, ":"); ok {
		id, b.State = head, message.State(state)
	}
	if head, version, ok := strings.Cut(id, "@"); ok {
		id, b.Version = head, version
	}
	app, index, _ := strings.Cut(where, "/")
	n, err := strconv.Atoi(index)
	b.App, b.Index, b.Instance = app, n, id
	return b, err
}

func (s *scenario) beat(name string) {
	n := s.nodes[name]
	n.next = s.now.Add(10 * time.Second)
	s.step(Heartbeat{message.Heartbeat{Node: name, Beats: n.beats}})
}

func (s *scenario) pass(d time.Duration) {
	for end := s.now.Add(d); s.now.Before(end); {
		s.now = s.now.Add(time.Second)
		for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
			if !s.nodes[name].next.After(s.now) {
				s.beat(name)
			}
		}
		s.step(Tick{})
	}
}

func (s *scenario) step(ev Event) {
	nudges, findings := s.m.Step(s.now, ev)
	at := s.now.Sub(start()).Seconds()
	for _, f := range findings {
		if f.Kind != KindStart && f.Kind != KindStop { // the nudges say so
			fmt.Fprintf(&s.out, "  %3.0fs  %s\n", at, f)
		}
	}
	for _, n := range nudges {
		fmt.Fprintf(&s.out, "  %3.0fs  %s\n", at, describe(n))
	}
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
	c := s.m.Counts(s.now, pool)
	fmt.Fprintf(&s.out, "  complete=%v %s\n", c.Complete, c.Why)
	for _, name := range slices.Sorted(maps.Keys(c.Apps)) {
		fmt.Fprintf(&s.out, "  %s %+v\n", name, c.Apps[name])
	}
}
