package replay

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/jsonlines"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// Options of a replay.
type Options struct {
	Policy *judge.Policy // until a line sets one; nil: the first line must set one
}

// Run replays a file. An invalid line is a *jsonlines.Error; the output of the earlier lines is
// written. Any other error comes from ctx, in or out.
func Run(ctx context.Context, in io.Reader, out io.Writer, opts Options) error {
	if opts.Policy != nil {
		if err := opts.Policy.Validate(); err != nil {
			return fmt.Errorf("replay node health: %w", err)
		}
	}
	w := bufio.NewWriter(out)
	p := &player{out: json.NewEncoder(w), lastObserved: map[string]map[api.DetectionType]judge.Observation{}}
	p.out.SetEscapeHTML(false)
	if opts.Policy != nil {
		p.follow(*opts.Policy)
	}
	err := p.play(ctx, jsonlines.NewReader(in, maxLine, allowed))
	if flush := w.Flush(); flush != nil {
		err = errors.Join(err, fmt.Errorf("write the findings: %w", flush))
	}
	return err
}

// player is a judge in virtual time.
type player struct {
	judge        *judge.Judge
	policy       judge.Policy
	second       int64
	nodes        []judge.Node
	listed       bool
	down         bool // the path of the heartbeats
	lastObserved map[string]map[api.DetectionType]judge.Observation
	out          *json.Encoder
	err          error // of out
}

// printed is one line of the output.
type printed struct {
	T       int64            `json:"t"`
	Event   api.HealthEvent  `json:"event"`
	Node    string           `json:"node,omitempty"`
	Action  api.RepairAction `json:"action,omitempty"`
	Gate    api.Gate         `json:"gate,omitempty"`
	Why     string           `json:"why,omitempty"`
	Zone    string           `json:"zone,omitempty"`
	Attempt string           `json:"attempt,omitempty"`
	Until   *int64           `json:"until,omitempty"`
	Observe bool             `json:"observe,omitempty"`
	Alarm   string           `json:"alarm,omitempty"`
}

func (p *player) play(ctx context.Context, lines *jsonlines.Reader) error {
	for {
		l, err := jsonlines.Parsed(lines, parse)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, policy := l.(policyLine); p.judge == nil && !policy {
			return lines.Wrong("the first line must be a policy")
		}
		if err := p.playLine(ctx, l); err != nil {
			return err
		}
	}
}

// playLine applies one line.
func (p *player) playLine(ctx context.Context, l line) error {
	switch l := l.(type) {
	case policyLine:
		p.follow(l.policy)
	case nodesLine:
		p.nodes, p.listed = nodesOf(l), true
		p.step(judge.Nodes{List: p.nodes})
	case advanceLine:
		for range l {
			if ctx.Err() != nil {
				return fmt.Errorf("replay: %w", context.Cause(ctx))
			}
			p.pass()
		}
	case judge.PathProof:
		p.down = l.Down
		p.step(l)
	case judge.Observation:
		of, known := p.lastObserved[l.Node]
		if !known {
			of = map[api.DetectionType]judge.Observation{}
			p.lastObserved[l.Node] = of
		}
		of[l.Mode] = l
		p.step(l)
	case judge.Event:
		p.step(l)
	}
	return p.err
}

// follow adopts a policy, as a restart with it does.
func (p *player) follow(policy judge.Policy) {
	old := p.judge
	p.policy = policy.WithDefaults()
	p.judge = judge.New(policy)
	if old != nil {
		if j, err := judge.Restore(p.now(), policy, old.State()); err == nil { // a judge's own state is valid
			p.judge = j
		}
	}
	p.prove()
	if p.listed {
		p.step(judge.Nodes{List: p.nodes})
	}
}

// pass advances the time by one second.
func (p *player) pass() {
	p.second++
	p.prove()
	if every := max(1, int64(time.Duration(*p.policy.Detection.Interval)/time.Second)); p.listed && p.second%every == 0 {
		p.step(judge.Nodes{List: p.nodes})
	}
	p.step(judge.Tick{})
}

// prove reports the heartbeat path as up, unless it is down.
func (p *player) prove() {
	if _, heartbeats := p.policy.Detection.Mode(api.DetectAgentHeartbeat); heartbeats && !p.down {
		p.step(judge.PathProof{})
	}
}

// now returns the virtual time. t = 0 is midnight of a Thursday, for the schedule.
func (p *player) now() time.Time { return at(float64(p.second)) }

func at(second float64) time.Time {
	whole := int64(second)
	return time.Unix(whole, int64((second-float64(whole))*1e9)).UTC()
}

func nodesOf(l nodesLine) []judge.Node {
	out := make([]judge.Node, 0, len(l))
	for _, n := range l {
		node := judge.Node{ID: n.ID, Zone: n.Zone, State: n.State}
		if n.Since != nil {
			node.Since = at(*n.Since)
		}
		out = append(out, node)
	}
	return out
}

// step passes an event to the judge, prints its findings and serves its re-checks.
func (p *player) step(ev judge.Event) {
	orders, found := p.judge.Step(p.now(), ev)
	for _, f := range found {
		line := printed{T: p.second, Event: f.Event, Node: f.Node, Action: f.Action, Gate: f.Gate, Why: f.Why, Zone: f.Zone, Attempt: f.Attempt, Observe: f.Observe}
		if !f.Until.IsZero() {
			line.Until = new(f.Until.Unix())
		}
		p.print(line)
	}
	for _, o := range orders {
		switch o.Kind {
		case judge.OrderAlarm:
			p.print(printed{T: p.second, Event: "alarm", Node: o.Node, Why: o.Why, Alarm: o.Alarm})
		case judge.OrderRecheck:
			p.recheck(o.Node)
		}
	}
}

// recheck repeats the last observation of each mode. An earlier heartbeat does not prove that the
// node is up now.
func (p *player) recheck(node string) {
	for _, m := range p.policy.Detection.Modes {
		if o, lastObserved := p.lastObserved[node][m.Type]; lastObserved && (m.Type != api.DetectAgentHeartbeat || o.Verdict == api.CheckFail) {
			p.step(o)
		}
	}
}

func (p *player) print(l printed) {
	if err := p.out.Encode(l); err != nil && p.err == nil {
		p.err = fmt.Errorf("write the findings: %w", err)
	}
}
