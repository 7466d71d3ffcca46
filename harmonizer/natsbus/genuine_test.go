package natsbus

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

// Without LegacyDEAs the subjects that all DEAs share are not received, and healthmanager.start is not published.
func TestLegacySubjectsAreOff(t *testing.T) {
	url := startServer(t, t.TempDir(), -1).ClientURL()
	node := connect(t, url)
	requests, err := node.SubscribeSync(cloudfoundry.SubjectManagerStart)
	if err != nil || node.Flush() != nil {
		t.Fatal(err)
	}
	e := newEar()
	bus := listenAs(t, connect(t, url), Config{}, e)
	publish(t, node, message.SubjectHeartbeat, "legacy")
	publish(t, node, message.SubjectExited, "legacy")
	publish(t, node, message.HeartbeatSubject(cluster, message.Node{Pool: "p", Name: "n1"}), "own")
	e.expect(t, apps.Heartbeat{Node: message.Node{Pool: "p", Name: "n1"}, Data: []byte("own")})
	publish(t, node, cloudfoundry.SubjectManagerStart, "the test's")
	if m, err := requests.NextMsg(deadline); err != nil || string(m.Data) != "the test's" {
		t.Errorf("on %s: %v, %v; want only the test's message", cloudfoundry.SubjectManagerStart, m, err)
	}
	if diff := cmp.Diff(map[string]uint64{"connected": 1, "dropped": 0}, bus.Counters()); diff != "" {
		t.Errorf("counters:\n%s", diff)
	}
}

// A client that may use JetStream has the server send a stored heartbeat. The bus refuses and counts it.
func TestServerMadeHeartbeatsAreRefused(t *testing.T) {
	url := startServer(t, t.TempDir(), -1).ClientURL()
	nc := connect(t, url)
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.AddStream(&nats.StreamConfig{Name: "S", Subjects: []string{"s"}, AllowDirect: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish("s", []byte(`{"dea":"n1","droplets":[]}`)); err != nil {
		t.Fatal(err)
	}
	e := newEar()
	bus := listen(t, connect(t, url), Config{}, e)
	own := "refused_" + message.HeartbeatSubject(cluster, message.Node{Pool: "*", Name: "*"})
	for _, reply := range []string{message.HeartbeatSubject(cluster, message.Node{Pool: "p", Name: "n1"}), message.SubjectHeartbeat} {
		if err := nc.PublishRequest("$JS.API.DIRECT.GET.S.s", reply, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.AddConsumer("S", &nats.ConsumerConfig{DeliverSubject: message.SubjectHeartbeat, AckPolicy: nats.AckNonePolicy}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Publish(message.StatusSubject(cluster), nil); err != nil { // a request without a reply subject
		t.Fatal(err)
	}
	await.True(t, "the messages are refused", func() bool {
		n := bus.Counters()
		return n[own] == 1 && n["refused_"+message.SubjectHeartbeat] == 2 && n["refused_"+message.StatusSubject(cluster)] == 1
	})
	publish(t, nc, message.HeartbeatSubject(cluster, message.Node{Pool: "p", Name: "n1"}), "genuine")
	e.expect(t, apps.Heartbeat{Node: message.Node{Pool: "p", Name: "n1"}, Data: []byte("genuine")})
}
