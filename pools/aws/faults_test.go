package aws

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/weirkeeper/weirkeeper/internal/platform/jsonfault"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
)

// A fault in an event of EventBridge drops at most what it is about: of a list of instances the one that cannot be read, and
// otherwise the event, which is named. Only the type and the instances decide; the rest describes the event.
func TestFaultsOfEvents(t *testing.T) {
	s := awstest.NewDirect(t, awsfake.Config{Queue: "events"})
	s.AddGroup(awsfake.ASG{Name: "web", Max: 9, Desired: 3, Spot: true, Tags: map[string]string{tag: ours}})
	var log bytes.Buffer
	cfg := configFor(s, AutoScaling)
	cfg.Queue = "events"
	p, err := Open(t.Context(), cfg, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	one(t, p)
	all := s.Instances("web")
	body := func(kind string) string {
		return fmt.Sprintf(`{"id":"","detail-type":%q,"time":"2024-01-02T00:00:00Z","detail":{"instance-id":%[3]q,"instance-action":"terminate","state":"stopped",`+
			`"EC2InstanceId":%[3]q,"eventTypeCode":"X","affectedEntities":[{"entityValue":%[2]q},{"entityValue":%[3]q},{"entityValue":%[4]q}]}}`, kind, all[0].ID, all[1].ID, all[2].ID)
	}
	if lacks := jsonfault.Lacks[wireEvent](body("x")); lacks != nil {
		t.Errorf("the event lacks %q", lacks)
	}
	// handle returns the instances of the notices that a message causes, at this age, and whether it was named.
	handle := func(text string, age time.Duration) (hints, warnings []string, named bool) {
		log.Reset()
		out, received := make(chan pools.Notice, 10), make(chan pools.Notice, 10)
		q := &queue{p: p, hints: out, warnings: received, done: make(chan string, 10)}
		if err := q.find(t.Context()); err != nil {
			t.Fatal(err)
		}
		_ = q.handle(t.Context(), sqstypes.Message{ // the receipt is of no message
			Body: &text, ReceiptHandle: aws.String("none"), Attributes: map[string]string{"SentTimestamp": fmt.Sprint(s.Now().Add(-age).UnixMilli())},
		})
		for range len(out) {
			hints = append(hints, (<-out).Instance)
		}
		for range len(received) {
			warnings = append(warnings, (<-received).Instance)
		}
		slices.Sort(hints)
		return hints, warnings, log.Len() > 0
	}
	three := []string{all[0].ID, all[1].ID, all[2].ID}
	slices.Sort(three)
	n := 0
	for _, kind := range []struct{ name, instance string }{
		{interruptionEvent, "detail.instance-id"}, {rebalanceEvent, "detail.instance-id"}, {stateEvent, "detail.instance-id"},
		{terminateAction, "detail.EC2InstanceId"}, {healthEvent, "detail.affectedEntities"},
	} {
		for _, c := range jsonfault.Cases(body(kind.name)) {
			n++
			decides := c.Path == "detail-type" || c.Path == "detail" || strings.HasPrefix(c.Path, kind.instance)
			usable := (!decides || c.Fault == jsonfault.Extra || c.Fault == jsonfault.OtherCase) && c.Fault != jsonfault.NotJSON
			want := []string{all[1].ID}
			if kind.name == healthEvent {
				want = three
				for i, one := range all {
					if strings.HasPrefix(c.Path, fmt.Sprintf("%s[%d]", kind.instance, i)) && !usable && c.Fault != jsonfault.NotJSON {
						want, usable = slices.DeleteFunc(slices.Clone(three), func(id string) bool { return id == one.ID }), true
					}
				}
			}
			if !usable {
				want = nil
			}
			hints, warnings, _ := handle(c.Text, 0)
			warning := kind.name == interruptionEvent || kind.name == rebalanceEvent
			if got := slices.Concat(hints, warnings); !slices.Equal(got, want) || len(warnings) > 0 != (usable && warning) {
				t.Errorf("%s, %v: hints about %q, warnings about %q, want %q", kind.name, c, hints, warnings, want)
			}
			if _, _, named := handle(c.Text, time.Hour); named != (!usable && (warning || c.Path == "detail-type" || c.Fault == jsonfault.NotJSON)) {
				t.Errorf("%s, %v: named %v after an hour", kind.name, c, named)
			}
		}
	}
	t.Logf("%d faulty events", n)
}
