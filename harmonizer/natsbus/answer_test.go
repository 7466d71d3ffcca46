package natsbus

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry/report"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

// request returns the first n answers to a request.
func request(t *testing.T, nc *nats.Conn, subject, query string, n int) []string {
	t.Helper()
	reply := nats.NewInbox()
	sub, err := nc.SubscribeSync(reply)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.PublishRequest(subject, reply, []byte(query)); err != nil {
		t.Fatal(err)
	}
	var out []string
	for range n {
		m, err := sub.NextMsg(deadline)
		if err != nil {
			t.Fatalf("answer to %s: %v", subject, err)
		}
		out = append(out, string(m.Data))
	}
	return out
}

func TestAnswers(t *testing.T) {
	url := startServer(t, t.TempDir(), -1).ClientURL()
	client := connect(t, url)
	e := newEar()
	bus := listen(t, connect(t, url), Config{CloudFoundry: cloudfoundry.Features{Component: new(cloudfoundry.NewComponent(3, "h:1"))}}, e)

	for _, subject := range []string{report.SubjectStatus, report.SubjectHealth, report.SubjectDroplet} {
		if diff := cmp.Diff([]string{subject, "x"}, request(t, client, subject, "x", 2)); diff != "" {
			t.Errorf("answers to %s:\n%s", subject, diff)
		}
		if err := client.PublishRequest(subject, "nowhere", []byte("bad")); err != nil {
			t.Fatal(err)
		}
		await.True(t, "a bad query is counted", func() bool { return bus.Counters()["bad_"+subject+"_droplet"] == 1 })
	}

	var g message.Gather
	var whole api.InstanceCounts
	for i, data := range request(t, client, message.CountsRequestSubject(cluster, "p"), "", 2) {
		part, err := message.DecodeCounts([]byte(data))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := g.Add(part); ok != (i == 1) {
			t.Errorf("whole after part %d: %v", i, ok)
		} else if ok {
			whole = got
		}
	}
	if len(whole.Apps) != message.MaxCountApps+1 || whole.Pool != "p" {
		t.Errorf("%d apps of pool %q", len(whole.Apps), whole.Pool)
	}

	s := answerTo[api.HarmonizerStatus](t, client, message.StatusSubject(cluster), `{"app":"web"}`)
	if s.Why != "web" || s.Counters["own"] != 1 || s.Counters["connected"] != 1 {
		t.Errorf("status = %+v", s)
	}

	d := answerTo[cloudfoundry.Descriptor](t, client, cloudfoundry.SubjectComponentDiscover, "")
	if d.Type != "HealthManager" || d.Index != 3 || !strings.HasPrefix(d.UUID, "3-") || d.Host != "h:1" || d.Uptime != "0d:0h:0m:0s" && !strings.HasPrefix(d.Uptime, "0d:0h:") {
		t.Errorf("component = %+v", d)
	}
}

func TestOrders(t *testing.T) {
	url := startServer(t, t.TempDir(), -1).ClientURL()
	client := connect(t, url)
	e := newEar()
	listen(t, connect(t, url), Config{}, e)
	subject := message.OrderSubject(cluster)
	if a := answerTo[api.HarmonizerOrderAnswer](t, client, subject, `{"op":"retry","app":"web","index":0}`); !a.OK || a.Error != "" {
		t.Errorf("answer %+v", a)
	}
	if o := <-e.ordered; o.Op != api.OpRetry || o.App != "web" || o.Index == nil || *o.Index != 0 {
		t.Errorf("order %+v", o)
	}
	for _, bad := range []string{"{", `{"op":"retry","pool":"p"}`, strings.Repeat(" ", maxQuery+1)} {
		if a := answerTo[api.HarmonizerOrderAnswer](t, client, subject, bad); a.OK || a.Error == "" {
			t.Errorf("answer to %.20q: %+v", bad, a)
		}
	}
	if len(e.ordered) > 0 {
		t.Errorf("a bad order is carried out: %+v", <-e.ordered)
	}
	e.refusing = fmt.Errorf("order: %w", harmonizer.ErrNothing)
	if a := answerTo[api.HarmonizerOrderAnswer](t, client, subject, `{"op":"release"}`); !a.OK || !a.Nothing || a.Error != "" {
		t.Errorf("answer %+v", a)
	}
	e.refusing = fmt.Errorf("order: %w", harmonizer.ErrNotLeading)
	e.standby.Store(true)
	if a := answerTo[api.HarmonizerOrderAnswer](t, client, subject, `{"op":"release"}`); a.OK || a.Error != e.refusing.Error() {
		t.Errorf("answer %+v", a)
	}
}

// TestTheLeaderAnswersFirst: a follower answers too, but after the leader.
func TestTheLeaderAnswersFirst(t *testing.T) {
	url := startServer(t, t.TempDir(), -1).ClientURL()
	client := connect(t, url)
	leader, standby := newEar(), newEar()
	standby.standby.Store(true)
	listen(t, connect(t, url), Config{}, standby)
	listen(t, connect(t, url), Config{}, leader)
	var order []bool
	for _, data := range request(t, client, message.StatusSubject(cluster), "", 2) {
		var s api.HarmonizerStatus
		if err := json.Unmarshal([]byte(data), &s); err != nil {
			t.Fatal(err)
		}
		order = append(order, s.Leading)
	}
	if !cmp.Equal(order, []bool{true, false}) {
		t.Errorf("leading, in the order of answers: %v, want true, false", order)
	}
}
