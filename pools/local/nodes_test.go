package local_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/pools/local"
	"github.com/weirkeeper/weirkeeper/pools/local/localtest"
	"github.com/weirkeeper/weirkeeper/resource"
)

func TestNodesLogBadFactsOnceAMinute(t *testing.T) {
	bus := localtest.NewBus(t)
	var out bytes.Buffer // written by Run's goroutine, read after its end
	nodes := local.NewNodes(bus.Conn, "c", "p", 30*time.Second, slog.New(slog.NewTextHandler(&out, nil)))
	stop := localtest.Run(t, nodes.Run)
	publish := func(id string, data []byte) {
		if err := bus.Publish(message.FactsSubject("c", message.Node{Pool: "p", Name: id}), data); err != nil {
			t.Fatal(err)
		}
	}
	received := func(id string) {
		data, err := json.Marshal(api.NodeFacts{ID: id, Pool: "p"})
		if err != nil {
			t.Fatal(err)
		}
		localtest.Until(t, "facts of "+id, func() bool {
			publish(id, data)
			return slices.ContainsFunc(nodes.Facts(time.Now()), func(f api.NodeFacts) bool { return f.ID == id })
		})
	}
	received("first") // Run receives facts
	for range 100 {
		publish("bad", []byte("not json"))
	}
	received("last") // messages are in order, so the bad ones were handled before
	stop()
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, " dropped=1 ") {
		t.Errorf("logged %q, want one line of the first", got)
	}
}

// Facts that are not readable prove that their node runs. The last known facts stay, with the cause. Without earlier ones they
// are unknown.
func TestUnreadableFactsProveTheirNode(t *testing.T) {
	bus := localtest.NewBus(t)
	nodes := local.NewNodes(bus.Conn, "c", "p", time.Minute, localtest.Log(t))
	localtest.Run(t, nodes.Run)
	publish := func(node, data string) {
		t.Helper()
		if err := bus.Publish(message.FactsSubject("c", message.Node{Pool: "p", Name: node}), []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	await := func(what string, ok func(api.NodeFacts) bool) {
		t.Helper()
		localtest.Until(t, what, func() bool { return slices.ContainsFunc(nodes.Received(time.Now()), ok) })
	}
	const good = `{"id":"n","pool":"p","boot_id":"b","resources":{"cpus":4,"mem":1,"disk":1},"allocated":{"cpus":1,"mem":1,"disk":1},"tasks":3,"conditions":[{"type":"DiskFull","failed":false}]}`
	localtest.Until(t, "the facts", func() bool { publish("n", good); return len(nodes.Received(time.Now())) == 1 })
	unread := func(f api.NodeFacts) int {
		return slices.IndexFunc(f.Conditions, func(c api.NodeCondition) bool {
			return c.Type == "UnreadableFacts" && c.Unknown && !c.Failed && c.Why != ""
		})
	}
	for _, bad := range []string{"", "7", "{", `{"id":"m","pool":"p"}`, `{"id":"n"}`, strings.Replace(good, `"n"`, `"m"`, 1), strings.Replace(good, ":3", ":-3", 1)} {
		before := nodes.Received(time.Now())[0].At
		publish("stranger", bad)
		publish("n", bad)
		await("the receipt of "+bad, func(f api.NodeFacts) bool {
			return f.ID == "n" && f.At.After(before) && unread(f) == 1 && len(f.Conditions) == 2 && f.Tasks == 3 && f.Resources[resource.CPUs] == 4
		})
	}
	publish("n", good)
	await("good facts", func(f api.NodeFacts) bool { return f.ID == "n" && unread(f) < 0 })
	all := nodes.Received(time.Now())
	if len(all) != 2 || all[1].ID != "stranger" || !all[1].Outdated || unread(all[1]) != 0 {
		t.Errorf("known: %+v, want the node, and the stranger with unknown facts", all)
	}
	for _, odd := range []string{`"conditions":7`, `"conditions":[7]`, `"conditions":[{"type":"DiskFull","failed":"no"}]`, `"conditions":null`} {
		publish("n", strings.Replace(good, `"conditions":[{"type":"DiskFull","failed":false}]`, odd, 1))
	}
	publish("n", strings.Replace(good, ":3", ":5", 1))
	await("facts after odd conditions", func(f api.NodeFacts) bool { return f.Tasks == 5 })
}

// A node is silent after two missing heartbeats of its own period. If it publishes no period, the
// default period applies.
func TestNodePeriodDecidesSilence(t *testing.T) {
	bus := localtest.NewBus(t)
	nodes := local.NewNodes(bus.Conn, "c", "p", 30*time.Second, localtest.Log(t))
	localtest.Run(t, nodes.Run)
	received := map[string]time.Time{}
	for id, period := range map[string]time.Duration{"default": 0, "minute": time.Minute, "hostile": 1000 * time.Hour} {
		data, err := json.Marshal(api.NodeFacts{ID: id, Pool: "p", Heartbeat: period})
		if err != nil {
			t.Fatal(err)
		}
		localtest.Until(t, "facts of "+id, func() bool {
			if err := bus.Publish(message.FactsSubject("c", message.Node{Pool: "p", Name: id}), data); err != nil {
				t.Fatal(err)
			}
			for _, f := range nodes.Received(time.Now()) {
				received[f.ID] = f.At
			}
			return !received[id].IsZero()
		})
	}
	var ids []string
	for _, age := range []time.Duration{20 * time.Second, 28 * time.Second, 60 * time.Second, 200 * time.Second, 310 * time.Second} {
		ids = append(ids, "-")
		for _, f := range nodes.Facts(time.Now().Add(age)) {
			ids = append(ids, f.ID)
		}
	}
	want := []string{"-", "default", "hostile", "minute", "-", "hostile", "minute", "-", "hostile", "minute", "-", "hostile", "-"}
	if !slices.Equal(ids, want) {
		t.Errorf("not silent after 20, 28, 60, 200 and 310 s: %q, want %q", ids, want)
	}
}

// A node that is loud with facts only is reported to the harmonizer, by name, each second in which it lost messages.
func TestLoudFactsAreReported(t *testing.T) {
	bus := localtest.NewBus(t)
	reports := bustest.SubscribeSync(t, bus.Conn, message.LimitedSubject("c", "p"))
	nodes := local.NewNodes(bus.Conn, "c", "p", 30*time.Second, localtest.Log(t))
	localtest.Run(t, nodes.Run)
	large := make([]byte, message.MaxNodeMessage+1)
	var got api.LimitedSender
	localtest.Until(t, "a report", func() bool {
		for range 3 {
			if err := bus.Publish(message.FactsSubject("c", message.Node{Pool: "p", Name: "loud"}), large); err != nil {
				t.Fatal(err)
			}
		}
		m, err := reports.NextMsg(10 * time.Millisecond)
		if err == nil {
			got, err = message.DecodeLimited("p", m.Data)
			if err != nil {
				t.Fatal(err)
			}
		}
		return err == nil
	})
	if got.Node != "loud" || got.Lost == 0 {
		t.Errorf("report %+v, want the lost messages of the node", got)
	}
}
