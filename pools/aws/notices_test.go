package aws

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
)

func TestNotices(t *testing.T) { synctest.Test(t, testNotices) }

func testNotices(t *testing.T) {
	s := awstest.NewDirect(t, awsfake.Config{Queue: "warnings"})
	s.AddGroup(awsfake.ASG{Name: "web", Max: 9, Desired: 3, Spot: true, Tags: map[string]string{tag: ours}})
	s.AddGroup(awsfake.ASG{Name: "other", Max: 9, Desired: 1, Spot: true})
	cfg := configFor(s, AutoScaling)
	cfg.Queue = "warnings"
	p := open(t, cfg)
	taken, risky := s.Instances("web")[0].ID, s.Instances("web")[1].ID

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, ended := make(chan pools.Notice), make(chan error, 1)
	go func() { ended <- p.ReceiveNotices(ctx, out, nil) }()
	s.Send("nonsense")
	s.Interrupt(s.Instances("other")[0].ID)
	s.Interrupt(taken)
	s.Rebalance(risky)

	want := map[string]pools.NoticeKind{taken: pools.Interruption, risky: pools.Rebalance}
	for len(want) > 0 {
		n := await.Value(t, "a notice", out)
		if n.Kind != want[n.Instance] || n.At.IsZero() || n.Why == "" {
			t.Errorf("%+v, want %q of %s", n, want[n.Instance], n.Instance)
		}
		delete(want, n.Instance)
		n.Done()
	}
	await.True(t, "what is done is deleted", func() bool { return s.QueueLength() == 2 })
	s.Advance(10 * time.Minute)
	await.True(t, "useless messages are deleted", func() bool { return s.QueueLength() == 0 })
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Notices = %v", err)
	}
}

// A warning that is not done is received again.
func TestNoticeIsRepeated(t *testing.T) { synctest.Test(t, testNoticeIsRepeated) }

func testNoticeIsRepeated(t *testing.T) {
	s := awstest.NewDirect(t, awsfake.Config{})
	s.AddGroup(awsfake.ASG{Name: "web", Max: 9, Desired: 1, Spot: true, Tags: map[string]string{tag: ours}})
	cfg := configFor(s, AutoScaling)
	cfg.Queue = s.QueueURL()
	p := open(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, ended := make(chan pools.Notice), make(chan error, 1)
	go func() { ended <- p.ReceiveNotices(ctx, out, nil) }()
	s.Rebalance(s.Instances("web")[0].ID)
	first := await.Value(t, "a notice", out)
	s.Advance(visibility * 2 * time.Second)
	if again := await.Value(t, "a notice", out); again.Instance != first.Instance {
		t.Errorf("%+v, want %s again", again, first.Instance)
	}
	cancel()
	<-ended
}

func TestNoQueue(t *testing.T) {
	p := &Provider{}
	if err := p.ReceiveNotices(t.Context(), nil, nil); err == nil {
		t.Error("without a queue the error is nil")
	}
}

const interruption = `{"version":"0","detail-type":"EC2 Spot Instance Interruption Warning","source":"aws.ec2",
	"time":"2024-01-02T00:00:00Z","detail":{"instance-id":"i-1234567890abcdef0","instance-action":"terminate"}}`

func TestParseEvent(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		kind       pools.NoticeKind
		bad        string
	}{
		{"interruption", interruption, pools.Interruption, ""},
		{"rebalance", strings.Replace(interruption, interruptionEvent, rebalanceEvent, 1), pools.Rebalance, ""},
		{"another event", strings.Replace(interruption, interruptionEvent, "EC2 Instance Running", 1), "", "is unknown"},
		{"no instance", strings.Replace(interruption, "i-1234567890abcdef0", "", 1), "", "no instance"},
		{"an invalid instance id", strings.Replace(interruption, "i-1234567890abcdef0", "i-../../x", 1), "", "no instance"},
		{"no JSON", "spot", "", "not an event"},
		{"a bad time", strings.Replace(interruption, "2024-", "x", 1), pools.Interruption, ""},
		{"a time of another type", strings.Replace(interruption, `"2024-01-02T00:00:00Z"`, "7", 1), pools.Interruption, ""},
		{"an action of another type", strings.Replace(interruption, `"terminate"`, "[]", 1), pools.Interruption, ""},
		{"entities of another type", strings.Replace(interruption, `"instance-action"`, `"affectedEntities":7,"instance-action"`, 1), pools.Interruption, ""},
		{"a list", "[]", "", "not an event"},
		{"too long", strings.Repeat(" ", maxBody) + interruption, "", "larger"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n, err := parseEvent(tc.body)
			if n.kind != tc.kind || tc.bad == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.bad) {
				t.Errorf("parseEvent = %+v, %v, want %q, %q", n, err, tc.kind, tc.bad)
			}
		})
	}
}

func FuzzParseEvent(f *testing.F) {
	for _, seed := range []string{interruption, "{}", `{"detail":null}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if n, err := parseEvent(body); err == nil && (len(n.instances) == 0 || !validID(n.instances[0]) || n.kind == "" || n.why == "") {
			t.Errorf("parseEvent(%q) = %+v", body, n)
		}
	})
}
