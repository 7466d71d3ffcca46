package aws

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
)

// withQueue returns a group whose events arrive in the queue.
func withQueue(t *testing.T) (*awsfake.Server, <-chan pools.Notice, <-chan pools.Notice) {
	t.Helper()
	s := awstest.NewDirect(t, awsfake.Config{Queue: "events", Changes: true})
	s.AddGroup(awsfake.ASG{Name: "web", Max: 9, Desired: 3, Spot: true, Tags: map[string]string{tag: ours}})
	s.AddGroup(awsfake.ASG{Name: "other", Max: 9, Desired: 1})
	cfg := configFor(s, AutoScaling)
	cfg.Queue = "events"
	hints := make(chan pools.Notice, 100)
	p := open(t, cfg)
	return s, receiveWarnings(t, p, hints), hints
}

// hinted waits for a hint about an instance that contains word.
func hinted(t *testing.T, hints <-chan pools.Notice, id, word string) {
	t.Helper()
	for {
		n := await.Value(t, "a notice", hints)
		if n.Kind != pools.Hint || n.At.IsZero() || n.Done == nil {
			t.Fatalf("%+v, want a hint with its time", n)
		}
		if n.Instance == id && strings.Contains(n.Why, word) {
			return
		}
	}
}

func TestHints(t *testing.T) { synctest.Test(t, testHints) }

func testHints(t *testing.T) {
	s, warnings, hints := withQueue(t)
	all := s.Instances("web")
	s.Stop(all[0].ID)
	hinted(t, hints, all[0].ID, "State-change Notification: stopping")
	s.Incident("AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED", "vol-1", all[1].ID, s.Instances("other")[0].ID)
	hinted(t, hints, all[1].ID, "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED")
	s.Advance(5 * time.Minute)
	hinted(t, hints, all[0].ID, "EC2 Instance Terminate Successful")
	s.Interrupt(all[2].ID)
	n := await.Value(t, "a notice", warnings)
	if n.Kind != pools.Interruption || n.Instance != all[2].ID {
		t.Errorf("%+v, want the interruption among the warnings", n)
	}
	n.Done()
}

// A failed request delays later messages by less than a second, and does not delay other messages
// of its batch.
func TestNoticesAfterAFailure(t *testing.T) { synctest.Test(t, noticesAfterAFailure) }

func noticesAfterAFailure(t *testing.T) {
	s, warnings, hints := withQueue(t)
	hinted(t, hints, s.Instances("web")[2].ID, "Launch Successful")
	synctest.Wait() // ReceiveNotices polls
	s.Deny("ChangeMessageVisibility", "")
	s.Deny("DeleteMessage", "")
	began := time.Now()
	for _, body := range []string{"nonsense", "more nonsense"} {
		s.Send(body)
	}
	s.Interrupt(s.Instances("web")[0].ID)
	if n := await.Value(t, "a notice", warnings); n.Kind != pools.Interruption || time.Since(began) > time.Second {
		t.Errorf("%+v after %s, want the warning within a second", n, time.Since(began))
	}
}

// A repeated event is sent once. A hint about an unknown instance stays in the queue for a minute,
// for other pools.
func TestHintsOnceAndOurs(t *testing.T) { synctest.Test(t, testHintsOnceAndOurs) }

func testHintsOnceAndOurs(t *testing.T) {
	s, _, hints := withQueue(t)
	all := s.Instances("web")
	body := func(id, instance string) string {
		return `{"id": "` + id + `", "detail-type": "` + stateEvent + `", "time": "2024-01-02T00:00:00Z", "detail": {"instance-id": "` + instance + `", "state": "stopped"}}`
	}
	await.True(t, "the launches are of no use any more", func() bool { s.Advance(time.Minute); return s.QueueLength() == 0 })
	for len(hints) > 0 {
		<-hints
	}
	for _, id := range []string{"a", "a", "b"} {
		s.Send(body(id, all[0].ID))
	}
	s.Send(body("c", s.Instances("other")[0].ID))
	await.True(t, "ours are deleted", func() bool { return s.QueueLength() == 1 })
	if len(hints) != 2 {
		t.Errorf("%d hints, want one each of two events", len(hints))
	}
	await.True(t, "the other's is deleted once it is of no use", func() bool { s.Advance(time.Minute); return s.QueueLength() == 0 })
}

// Hints without a receiver do not block warnings.
func TestHintsWithoutReceiver(t *testing.T) { synctest.Test(t, testHintsWithoutReceiver) }

func testHintsWithoutReceiver(t *testing.T) {
	s := awstest.NewDirect(t, awsfake.Config{Queue: "events"})
	s.AddGroup(awsfake.ASG{Name: "web", Max: 9, Desired: 3, Spot: true, Tags: map[string]string{tag: ours}})
	cfg := configFor(s, AutoScaling)
	cfg.Queue = "events"
	warnings := receiveWarnings(t, open(t, cfg), nil)
	all := s.Instances("web")
	for range 30 {
		s.Incident("AWS_EC2_OPERATIONAL_ISSUE", all[0].ID)
	}
	s.Rebalance(all[1].ID)
	if n := await.Value(t, "a notice", warnings); n.Instance != all[1].ID {
		t.Errorf("%+v, want the warning", n)
	}
	await.True(t, "useless messages are deleted", func() bool { return s.QueueLength() == 1 })
}

func TestParseHints(t *testing.T) {
	const id = "i-1234567890abcdef0"
	for _, tc := range []struct{ name, body, why string }{
		{"state", `{"detail-type": "EC2 Instance State-change Notification", "detail": {"instance-id": "` + id + `", "state": "stopped"}}`, stateEvent + ": stopped"},
		{"launched", `{"detail-type": "EC2 Instance Launch Successful", "detail": {"EC2InstanceId": "` + id + `"}}`, "EC2 Instance Launch Successful"},
		{"ended", `{"detail-type": "EC2 Instance Terminate Unsuccessful", "detail": {"EC2InstanceId": "` + id + `"}}`, "EC2 Instance Terminate Unsuccessful"},
		{"hook", `{"detail-type": "EC2 Instance-terminate Lifecycle Action", "detail": {"EC2InstanceId": "` + id + `"}}`, terminateAction},
		{"incident", `{"detail-type": "AWS Health Event", "detail": {"eventTypeCode": "X", "affectedEntities": [{"entityValue": "vol-1"}, {"entityValue": "` + id + `"}, {"entityValue": "` + id + `"}]}}`, "AWS Health Event: X"},
		{"incident of nothing", `{"detail-type": "AWS Health Event", "detail": {"affectedEntities": []}}`, ""},
		{"launch that failed", `{"detail-type": "EC2 Instance Launch Unsuccessful", "detail": {}}`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e, err := parseEvent(tc.body)
			if tc.why == "" {
				if err == nil {
					t.Errorf("parseEvent = %+v, want an error", e)
				}
				return
			}
			if err != nil || e.kind != pools.Hint || len(e.instances) != 1 || e.instances[0] != id || e.why != tc.why {
				t.Errorf("parseEvent = %+v, %v, want a hint about %s: %s", e, err, id, tc.why)
			}
		})
	}
}
