package schedulertest

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/resource"
)

// folder has the frozen messages. A change of the protocol adds a folder, and changes no file in this one.
const folder = "testdata/v1"

// withRelease has the messages of an app with a release, an optional key that was added to version 1.
const withRelease = "testdata/v1-release"

// withPlaces has the messages of the question where copies fit, an optional part that was added to version 1, and facts with
// a zone.
const withPlaces = "testdata/v1-places"

// withWaiting has a confirmation with waiting starts, an optional key that was added to version 1.
const withWaiting = "testdata/v1-waiting"

// withWork has messages of apps with ports, a spread and an end, which are optional keys that were added to version 1.
const withWork = "testdata/v1-work"

// withHeadroom has the question and the answer about free places, which are optional keys that were added to version 1.
const withHeadroom = "testdata/v1-headroom"

// withNodes has the messages of a scheduler of nodes that has work of its own: optional keys and subjects that were added to
// version 1.
const withNodes = "testdata/v1-nodes"

// fixture is one message of version 1, with the value that it stands for.
type fixture struct {
	value  any // a pointer, or a value that is not decoded
	decode func(data []byte) (any, error)
}

func fixtures() map[string]fixture {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	status := 3
	row := api.App{
		Name: "web", Pool: "p", Instances: 3, Version: "v7", Command: "exec ./web", CPUs: 0.5, Mem: 256, Disk: 100, Updated: at,
		State: api.AppStarted, Package: api.PackageStaged, Labels: map[string]string{"team": "shop"},
	}
	start := api.Start{App: "web", LastUpdated: at.Unix(), Version: "v7", Indices: []int{0, 2}, Running: map[string]int{"v7": 1}}
	stop := api.Stop{App: "web", LastUpdated: at.Unix(), Instances: map[string]string{"a1": "v6"}, Running: map[string]int{"v7": 1}, Version: "v7"}
	return map[string]fixture{
		"node_facts": {api.NodeFacts{
			ID: "i-01", Pool: "p", Group: "g", BootID: "b1", Resources: resource.Vector{4, 8192, 10000, 0}, Allocated: resource.Vector{0.5, 256, 100, 0},
			Tasks: 1, BatchTasks: 1, Draining: true, SafeToEvict: true, Priority: 1.256,
			Conditions: []api.NodeCondition{{Type: "DiskPressure", Failed: true, Why: "no space"}}, Heartbeat: 10 * time.Second, At: at,
		}, as(wire.DecodeFacts)},
		"heartbeat": {api.Heartbeat{Node: "i-01", Beats: []api.Beat{
			{App: "web", Version: "v7", Instance: "a1", Index: 0, State: api.CopyRunning, Since: 1772366400.5},
		}}, as(message.DecodeHeartbeat)},
		"exited": {api.Exited{
			App: "web", Version: "v7", Instance: "a1", Index: 0, Reason: api.ExitCrashed, Status: &status, Description: "exit status 3", CrashedAt: at.Unix(),
		}, as(func(data []byte) (api.Exited, error) {
			return message.DecodeExited(message.Node{Pool: "p", Name: "i-01"}, data)
		})},
		"app": {row, as(message.DecodeApp)},
		"start": {start, func(data []byte) (any, error) {
			s, _, err := message.DecodeNudge(message.SubjectStart, data)
			return *s, err
		}},
		"stop": {stop, func(data []byte) (any, error) {
			_, s, err := message.DecodeNudge(message.SubjectStop, data)
			return *s, err
		}},
		"classic_start": {start.Request(), nil},
		"classic_stop":  {stop.Request(), nil},
		"confirmation":  {api.Confirmation{Pool: "p", Epoch: 4, Nudges: []string{"n1", "n2"}}, as(message.DecodeConfirmation)},
		"placed_query": {api.PlacedQuery{Copies: []api.PlacedCopy{
			{Instance: "a1", Node: "i-01", App: "web", Version: "v7", Index: 0}, {Instance: "zz", Node: "i-02", App: "web", Version: "v7", Index: 1},
		}}, as(plain[api.PlacedQuery])},
		"placed": {api.PlacedAnswer{Placed: []string{"a1"}, NotPlaced: []string{"zz"}}, as(plain[api.PlacedAnswer])},
		"pending": {api.Pending{
			Total: 1, Resources: resource.Vector{8, 256, 0, 0},
			Copies:   []api.PendingCopy{{App: "large", Version: "v1", Index: 0, Footprint: resource.Vector{8, 256, 0, 0}, Since: at, Why: "no node can hold it: it needs 8 cpus, the largest has 4 cpus"}},
			Rejected: []api.PendingCopy{{App: "web", Version: "v7", Index: 1, Footprint: resource.Vector{0.5, 256, 100, 0}, Since: at, Why: "a node rejects its start: no space"}},
		}, as(plain[api.Pending])},
		"node_start": {wire.StartRequest{
			App: "web", Version: "v7", Index: 2, Instance: "a2", Command: "exec ./web", Footprint: resource.Vector{0.5, 256, 100, 0},
		}, as(plain[wire.StartRequest])},
		"node_stop":   {wire.StopRequest{Instance: "a1"}, as(plain[wire.StopRequest])},
		"node_cordon": {wire.CordonRequest{On: true}, as(plain[wire.CordonRequest])},
	}
}

// all returns the fixtures by their files.
func all() map[string]fixture {
	row := fixtures()["app"].value.(api.App)
	row.Command, row.Release = "exec $WEIR_RELEASE_DIR/web", "shop/web@v1.2.0"
	start := fixtures()["node_start"].value.(wire.StartRequest)
	start.Command, start.Release = row.Command, row.Release
	files := map[string]fixture{
		filepath.Join(withRelease, "app_release.json"):        {row, as(message.DecodeApp)},
		filepath.Join(withRelease, "node_start_release.json"): {start, as(plain[wire.StartRequest])},
	}
	facts := fixtures()["node_facts"].value.(api.NodeFacts)
	facts.Zone = "eu-1a"
	files[filepath.Join(withPlaces, "node_facts_zone.json")] = fixture{facts, as(wire.DecodeFacts)}
	files[filepath.Join(withPlaces, "places_question.json")] = fixture{placesQuestion(), as(plain[api.PlacesQuestion])}
	files[filepath.Join(withPlaces, "places.json")] = fixture{placesAnswer(), as(func(data []byte) (api.Places, error) {
		return api.DecodePlaces(data, placesQuestion())
	})}
	question, answer := placesHeadroom()
	files[filepath.Join(withHeadroom, "places_question_headroom.json")] = fixture{question, as(plain[api.PlacesQuestion])}
	files[filepath.Join(withHeadroom, "places_headroom.json")] = fixture{answer, as(func(data []byte) (api.Places, error) { return api.DecodePlaces(data, question) })}
	files[filepath.Join(withPlaces, "pending_sizes.json")] = fixture{api.Pending{
		Total: 1, Resources: resource.Vector{50, 64}, Never: resource.Vector{50, 64},
		Copies: []api.PendingCopy{{App: "typo", Version: "v1", Footprint: resource.Vector{50, 64}, Since: row.Updated, Why: placesAnswer().Never[0].Why, Never: true}},
		Sizes:  []api.MachineSize{{Where: "group b", Resources: resource.Vector{8, 16384}}, {Where: "node n1", Resources: resource.Vector{4, 8192}}},
	}, as(plain[api.Pending])}
	files[filepath.Join(withPlaces, "never.json")] = fixture{api.NeverPlaced{Pool: "p", Apps: placesAnswer().Never}, as(message.DecodeNever)}
	files[filepath.Join(withWaiting, "confirmation_waiting.json")] = fixture{api.Confirmation{
		Pool: "p", Epoch: 4, Nudges: []string{}, Waiting: []api.WaitingStart{{App: "web", Version: "v7", Indices: []int{0, 2}}},
	}, as(message.DecodeConfirmation)}
	work := fixtures()["app"].value.(api.App)
	work.Ports = []api.Port{{Name: "http", Port: 8080}, {Name: "admin", Port: api.AutoPort}}
	work.Ready = &api.Readiness{HTTP: &api.HTTPCheck{Port: api.PortRef{Name: "admin"}, Path: "/health"}}
	work.Spread, work.OneShot, work.Retries = &api.Spread{By: api.SpreadByZone, AtMostPerNode: 2}, true, new(5)
	files[filepath.Join(withWork, "app_work.json")] = fixture{work, as(message.DecodeApp)}
	workStart := fixtures()["node_start"].value.(wire.StartRequest)
	workStart.Ports, workStart.Ready, workStart.OneShot = work.Ports, work.Ready, true
	files[filepath.Join(withWork, "node_start_work.json")] = fixture{workStart, as(plain[wire.StartRequest])}
	exit := fixtures()["exited"].value.(api.Exited)
	exit.Status, exit.Description, exit.Repeated = new(0), "exit status 0", true
	files[filepath.Join(withWork, "exited_repeated.json")] = fixture{exit, as(func(data []byte) (api.Exited, error) {
		return message.DecodeExited(message.Node{Pool: "p", Name: "i-01"}, data)
	})}
	files[filepath.Join(withWork, "pending_ports.json")] = fixture{api.Pending{
		Copies: []api.PendingCopy{}, Taken: []api.TakenPort{{Node: "i-01", Port: 8080, App: "web", Until: row.Updated}},
	}, as(plain[api.Pending])}
	maps.Copy(files, nodeFiles(facts))
	for name, f := range fixtures() {
		files[filepath.Join(folder, name+".json")] = f
	}
	return files
}

// nodeFiles returns the fixtures of withNodes.
func nodeFiles(facts api.NodeFacts) map[string]fixture {
	at := facts.At
	facts.CordonedBy, facts.Slots, facts.Overhead = api.CordonedByOther, &api.Slots{All: 110, Used: 12}, resource.Vector{0.25, 200}
	facts.Blocked = []api.BlockedTask{{Task: "shop/web-5d9c-x2x9q", Why: "429: the disruption budget of shop/web allows no eviction now", Since: at}}
	state := api.SchedulerState{
		Pool: "p", Kind: "kubernetes", Fresh: true, AsOf: at, Period: 10 * time.Second, Nodes: 3, Accepts: []string{api.AcceptsReason, api.AcceptsDeadline},
	}
	stale := state
	stale.Fresh, stale.Why, stale.Accepts = false, "nothing received from the API server since 11:58:00: connection refused", nil
	troubled := state
	troubled.Problems = []string{"node ip-10-0-1-7: it has no providerID: the cloud controller has not initialized it, or the kubelet needs --provider-id"}
	decodeState := as(func(data []byte) (api.SchedulerState, error) { return message.DecodeState("p", data) })
	size := resource.Vector{2, 4096}
	return map[string]fixture{
		filepath.Join(withNodes, "scheduler_state.json"):          {state, decodeState},
		filepath.Join(withNodes, "scheduler_state_stale.json"):    {stale, decodeState},
		filepath.Join(withNodes, "scheduler_state_problems.json"): {troubled, decodeState},
		filepath.Join(withNodes, "node_facts_scheduler.json"):     {facts, as(wire.DecodeFacts)},
		filepath.Join(withNodes, "node_cordon_deadline.json"):     {wire.CordonRequest{On: true, Reason: api.DrainSpot, Deadline: at}, as(plain[wire.CordonRequest])},
		filepath.Join(withNodes, "places_question_slots.json"): {api.PlacesQuestion{
			Kinds: []api.PlacesKind{{Group: "g", Resources: resource.Vector{4, 8192, 10000}, Weight: 1, Slots: 110, Room: 2}},
		}, as(plain[api.PlacesQuestion])},
		filepath.Join(withNodes, "node_gone.json"): {api.NodeGone{Node: "i-01", Pool: "p", At: at}, as(plain[api.NodeGone])},
		filepath.Join(withNodes, "pending_shapes.json"): {api.Pending{
			Total: 1, Resources: size, State: &state,
			Copies: []api.PendingCopy{{
				App: "shop/web-5d9c", Footprint: size, Since: at, Why: "0/3 nodes are available: 3 Insufficient cpu.",
				Labels: map[string]string{"disk": "ssd"}, Zone: "eu-1a",
			}},
		}, as(plain[api.Pending])},
	}
}

func placesQuestion() api.PlacesQuestion {
	return api.PlacesQuestion{
		Kinds: []api.PlacesKind{
			{Group: "a", Resources: resource.Vector{4, 8192, 10000}, Weight: 1, Coming: 1, Room: 2, Level: 3},
			{Group: "b", Resources: resource.Vector{8, 16384, 10000}, Weight: 2, Why: "in backoff until 12:05: no capacity"},
			{Group: "c", Unknown: true, Weight: 4, Room: 5},
		},
		Gone: []string{"i-01"}, Aside: []string{"i-02"}, Leave: []string{"i-03", "i-04", "i-05"}, Most: 2,
	}
}

func placesAnswer() api.Places {
	web := resource.Vector{3, 256, 100}
	return api.Places{
		Nodes: 5, Waiting: 6,
		Coming: []api.PlacesNeed{{Group: "a", Nodes: 1, Weight: 1, Copies: 1, First: "web/0"}},
		New:    []api.PlacesNeed{{Group: "a", Nodes: 2, Weight: 2, Copies: 2, First: "web/1"}},
		Probe:  []api.PlacesNeed{{Group: "c", Nodes: 1, Weight: 4, Copies: 1, First: "gpu/0"}},
		Short:  []api.PlacesApp{{App: "wide", Copies: 2, Footprint: resource.Vector{6, 256, 100}, Why: "group b in backoff until 12:05: no capacity"}}, ShortCopies: 2,
		Never: []api.PlacesApp{{App: "typo", Copies: 1, Footprint: resource.Vector{50, 64}, Why: "it needs 50 cpus, the largest machine (group b) has 8 cpus"}}, NeverCopies: 1,
		Unplaceable: resource.Vector{50, 64}, Held: web.Scale(12), Leave: []string{"i-04"},
		Stay: []api.PlacesStay{{Node: "i-03", Why: "web/4 (cpus=3 mem=256 disk=100) has no other place"}}, Stays: 1, Back: []string{"i-01"},
	}
}

func placesHeadroom() (api.PlacesQuestion, api.Places) {
	web, q := resource.Vector{3, 256, 100}, api.PlacesQuestion{Kinds: []api.PlacesKind{{Group: "a", Resources: resource.Vector{4, 8192, 10000}, Weight: 1, Room: 1}}}
	q.Headroom = []api.Headroom{
		{Name: "spare", App: "web", Count: 2, Percent: 10, Limits: resource.Request{}.With(resource.CPUs, 9)},
		{Name: "large", Resources: resource.Vector{4, 512}, Count: 1, Group: "a"},
	}
	return q, api.Places{
		Nodes: 2, New: []api.PlacesNeed{{Group: "a", Nodes: 1, Weight: 1, Places: 1, First: "a free place of spare"}}, Held: web.Scale(30),
		Headroom: []api.PlacesHeadroom{
			{Name: "spare", Resources: web, Wanted: 3, Free: 2, Ordered: 1},
			{Name: "large", Resources: resource.Vector{4, 512}, Wanted: 1, Short: 1, Why: "group a may add only 1 machines now"},
		},
	}
}

func as[T any](decode func([]byte) (T, error)) func([]byte) (any, error) {
	return func(data []byte) (any, error) { return decode(data) }
}

func plain[T any](data []byte) (v T, err error) {
	err = json.Unmarshal(data, &v)
	return v, err
}

// TestVersion1IsFrozen: this code writes the messages of version 1 as they are, and reads them.
func TestVersion1IsFrozen(t *testing.T) {
	for path, f := range all() {
		t.Run(filepath.Base(path), func(t *testing.T) {
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			wrote, err := json.Marshal(f.value)
			if err != nil {
				t.Fatal(err)
			}
			var compact bytes.Buffer
			if err := json.Compact(&compact, want); err != nil {
				t.Fatal(err)
			}
			if got := string(wrote); got != compact.String() {
				t.Errorf("this code writes\n%s\nversion 1 has\n%s", got, compact.String())
			}
			if f.decode == nil {
				return
			}
			read, err := f.decode(want)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(read, f.value) {
				t.Errorf("this code reads\n%+v\nwant\n%+v", read, f.value)
			}
		})
	}
	files, err := filepath.Glob("testdata/*/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if _, ok := all()[file]; !ok {
			t.Errorf("%s has no test", file)
		}
	}
}

// TestPageNamesEachFixture: the page of the protocol has each message, as it is in the folder.
func TestPageNamesEachFixture(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "scheduler-protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	for path := range all() {
		if link := "`" + filepath.Base(path) + "`"; !strings.Contains(string(page), link) {
			t.Errorf("docs/scheduler-protocol.md does not name %s", link)
		}
	}
}
