package doctor

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/prometheus"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
)

// A pool with a Spot Fleet at the AWS test server: a denied right is a failure with its action.
func TestRightsAtTheProviderAreChecked(t *testing.T) {
	cloud := awstest.New(t, awsfake.Config{})
	cloud.AddFleet(awsfake.SpotFleet{ID: "sfr-web", Target: 2, Tags: map[string]string{"weir:pool": "prod/web"}, Specs: []awsfake.LaunchSpec{{Type: "m5.large", Zone: "us-west-2a"}}})
	dir := t.TempDir()
	for name, text := range map[string]string{
		"weir.yaml":     "aws: {region: " + cloud.Region() + ", endpoint_url: " + cloud.URL() + ", access_key_file: \"" + filepath.Join(dir, "keys.json") + "\"}\n",
		"keys.json":     `{"accessKeyId": "AKID", "secretAccessKey": "SECRET"}`,
		"prod/web.yaml": "resource_groups: [{sfr: {tag: \"weir:pool\"}}]\nscaling_limits: {min_capacity: 1, max_capacity: 9, max_weight_to_add: 9, max_weight_to_remove: 9}\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := Site{Configs: dir, Timeout: patience, Silent: errors.New("no bootstrap runs here")}
	if s.Service, s.Pool, s.Files = config.Load(dir, "prod", "web"); s.Files != nil {
		t.Fatal(s.Files)
	}
	c := bus.Config{Name: "test", Log: slog.New(slog.DiscardHandler), NATS: bus.NATS{Servers: []string{
		bustest.Serve(t, server.Options{JetStream: true, StoreDir: t.TempDir()}).ClientURL()}}}
	s.Bus = &Bus{Config: c, Cluster: "prod", Pool: "web", Timeout: patience}
	all := examine(t, s)
	want(t, all, "provider", OK, "AWS grants reads of a tick, ec2:TerminateInstances")
	want(t, all, "provider", Unknown, "not tested: ec2:ModifySpotFleetRequest", "iam-policy.json")
	want(t, all, "metrics store", Failed, "no metrics store answers on this bus", "weir metrics serve")
	want(t, all, "agents", Unknown, "no responders", "start bootstrap")
	want(t, all, "scheduler", Warned, "no placer of the pool answers")
	want(t, all, "scheduler", Warned, "no harmonizer of the cluster answers", "weir harmonizer")
	want(t, all, leftOverCheck, OK, "no record is about")

	cloud.Deny("TerminateInstances", "")
	want(t, examine(t, s), "provider", Failed, "ec2:TerminateInstances on i-", "UnauthorizedOperation", "iam-policy.json")
	cloud.Allow()
	cloud.Deny("DescribeSpotFleetRequests", "")
	want(t, examine(t, s), "provider", Failed, "ec2:DescribeSpotFleetRequests", "iam-policy.json")
	if n := cloud.Target("sfr-web"); n != 2 {
		t.Errorf("the target is %v after the checks, want 2", n)
	}
}

// A server of telemetry.remote_write is checked without a sample.
func TestRemoteWriteIsChecked(t *testing.T) {
	codes := map[string]int{"/write": http.StatusNoContent, "/other": http.StatusNotFound}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(codes[r.URL.Path]) }))
	t.Cleanup(server.Close)
	check := func(path string) []Finding {
		s := Site{Configs: t.TempDir(), Timeout: patience, Silent: errors.New("no bootstrap runs here")}
		s.Service.Telemetry.RemoteWrite = &prometheus.RemoteWrite{URL: server.URL + path}
		return examine(t, s)
	}
	want(t, check("/write"), "remote write", OK, server.URL+"/write accepts series")
	want(t, check("/other"), "remote write", Failed, "answers 404", "--web.enable-remote-write-receiver", "the pool scales meanwhile")
}

// The values of the pool show whether the store accepts writes, and keeps values for as long as the signals read.
func TestStoreIsJudgedByItsValues(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	points := func(ages ...time.Duration) []metrics.Series {
		var s metrics.Series
		for _, age := range ages {
			s.Times, s.Values = append(s.Times, now.Add(-age).Unix()), append(s.Values, 1)
		}
		return []metrics.Series{s}
	}
	for name, tc := range map[string]struct {
		series []metrics.Series
		want   Result
		text   string
	}{
		"empty":     {nil, Unknown, "no value of the pool"},
		"stopped":   {points(2*time.Hour, time.Hour), Failed, "newest value of the pool is 60 min old"},
		"young":     {points(5*time.Minute, time.Second), Unknown, "oldest value of the pool is 5 min old, and a signal reads 10 min"},
		"good":      {points(time.Hour, time.Second), OK, "has the last ticks"},
		"no points": {[]metrics.Series{{}}, Unknown, "no value of the pool"},
	} {
		t.Run(name, func(t *testing.T) {
			oneOf(t, []Finding{ofWrites(now, tc.series, 10*time.Second, 10*time.Minute)}, tc.want, tc.text)
		})
	}
}

// Silent nodes, clocks and ids of two machines have a line each.
func TestAgentsAreJudgedByReceipts(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_000_000, 0)
	good := api.NodeReceipt{Node: "n0", Age: time.Second, Ahead: -20 * time.Millisecond}
	of := func(more ...api.NodeReceipt) []Finding {
		return ofNodes(api.NodesReport{Nodes: make([]api.NodeFacts, 1+len(more)), Receipts: append([]api.NodeReceipt{good}, more...)})
	}
	oneOf(t, of(), OK, "1 nodes report")
	all := of(api.NodeReceipt{Node: "n1", Age: time.Minute, Silent: true}, api.NodeReceipt{Node: "n2", Ahead: 5 * time.Minute},
		api.NodeReceipt{Node: "n3", Ahead: -2 * time.Second}, api.NodeReceipt{Node: "n4", Twins: at})
	oneOf(t, all, Failed, "silent: n1 for 1m0s")
	oneOf(t, all, Warned, "ahead of that of the autoscaler's host: n2 by 5m0s", "synchronize")
	oneOf(t, all, Warned, "behind", "n3 by 2s")
	oneOf(t, all, Failed, "two machines: n4 at 1970-01-12T13:46:40Z", "an id of its own")
	if len(all) != 4 {
		t.Errorf("%d findings:\n%s", len(all), table(all))
	}
	unknown := ofNodes(api.NodesReport{Nodes: []api.NodeFacts{{ID: "n6", Conditions: []api.NodeCondition{{Type: "InstancesNotListed", Unknown: true, Why: "3 app instances"}}}}})
	if len(unknown) != 1 || unknown[0].Result != Warned || !strings.Contains(unknown[0].Detail, "n6: InstancesNotListed: 3 app instances") {
		t.Errorf("a condition without a result: %+v", unknown)
	}
	gone := withoutEnded(api.NodesReport{Nodes: make([]api.NodeFacts, 1), Receipts: []api.NodeReceipt{good, {Node: "ended", Silent: true}, {Node: "n8", Silent: true}}},
		parts{names: map[string]bool{good.Node: true, "n8": true}})
	if found := ofNodes(gone); len(found) != 1 || !strings.Contains(found[0].Detail, "1 nodes are silent: n8") {
		t.Errorf("a node that Weirkeeper ended and a silent one: %+v, want the silent one", found)
	}
	rival := ofNodes(api.NodesReport{Nodes: []api.NodeFacts{{ID: "n5", Rival: "process 7 of host b"}}, Receipts: []api.NodeReceipt{good}})
	oneOf(t, rival, Failed, "second agent, which is refused: n5: process 7 of host b", "another id")
}

func TestSchedulerIsJudgedByItsState(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_000_000, 0)
	waits := api.Pending{Total: 2, Copies: []api.PendingCopy{{App: "shop", Since: at}}}
	oneOf(t, ofPending(at, api.Pending{}), OK, "the placer of the pool answers, and no instance waits")
	oneOf(t, ofPending(at.Add(time.Minute), waits), Warned, "the placer answers; 2 instances without room, shop/0 for 60 s")
	waits.State = &api.SchedulerState{Kind: "kubernetes", Fresh: true, Period: time.Second, Problems: []string{"node a has no providerID"}}
	if all := ofPending(at, waits); len(all) != 2 || all[0].Result != Warned || !strings.Contains(all[0].Detail, "the scheduler (kubernetes) reports a problem: node a has no providerID") {
		t.Errorf("findings\n%s", table(all))
	}
	waits.State = &api.SchedulerState{Kind: "kubernetes", Fresh: true}
	oneOf(t, ofPending(at, waits), Warned, `the scheduler ("kubernetes") answers; 2 instances without room`)
	waits.State = &api.SchedulerState{Kind: "kubernetes", Why: "connection refused"}
	oneOf(t, ofPending(at, waits), Failed, `the scheduler ("kubernetes") answers, and has no current state of its nodes: "connection refused"; no machine is removed`)
}

func TestHarmonizerIsJudgedByItsStatus(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_000_000, 0)
	oneOf(t, ofHarmonizer(at, api.HarmonizerStatus{Complete: true, Queue: api.NudgeQueue{Starts: 2}}, "web"), OK, "2 starts and 0 stops wait")
	oneOf(t, ofHarmonizer(at, api.HarmonizerStatus{Complete: true, NoLeader: at}, "web"), Failed, "no harmonizer leads since")
	oneOf(t, ofHarmonizer(at, api.HarmonizerStatus{Complete: true, Unwritten: at}, "web"), Failed, "cannot save its state")
	lost := api.HarmonizerStatus{Complete: true, Unanswered: []api.UnansweredNudge{{App: "shop", Pool: "web", Since: at}, {App: "gone", Stop: true, Since: at}, {App: "x", Pool: "batch", Since: at}}}
	oneOf(t, ofHarmonizer(at.Add(time.Minute), lost, "web"), Failed, `requests for starts of "shop" for 1m0s, stops of "gone" for 1m0s`, `start "weir placer web"`)
	refused := api.HarmonizerStatus{Complete: true, Unanswered: []api.UnansweredNudge{{App: "shop", Pool: "web", Kind: "kubernetes"}}}
	oneOf(t, ofHarmonizer(at, refused, "web"), Failed, `application "shop" does not run: pool web runs no applications of Weirkeeper`, "another pool")
	if lost.Unanswered = lost.Unanswered[2:]; strings.Contains(table(ofHarmonizer(at, lost, "web")), "no scheduler") {
		t.Error("a request of another pool is a finding")
	}
	incomplete := ofHarmonizer(at, api.HarmonizerStatus{Why: "the first pass is under way"}, "web")
	oneOf(t, incomplete, Warned, "stops nothing", "the first pass is under way")
	if strings.Contains(table(incomplete), "answers") {
		t.Errorf("an incomplete harmonizer is good:\n%s", table(incomplete))
	}
}
