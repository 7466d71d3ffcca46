package aws

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
)

var update = flag.Bool("update", false, "write the table of calls of docs/disaster.md anew")

// wire is how a service answers.
type wire int

const (
	wireQuery wire = iota
	wireEC2
	wireS3
	wireSQS
)

// callFault is an answer to a call in place of the right one.
type callFault struct {
	name   string
	answer func(*http.Request, wire) (*http.Response, error)
}

func callFaults() []callFault {
	code := func(status int, codes [4]string) func(*http.Request, wire) (*http.Response, error) {
		forms := [4]string{
			"<ErrorResponse><Error><Code>%s</Code><Message>no</Message></Error></ErrorResponse>",
			"<Response><Errors><Error><Code>%s</Code><Message>no</Message></Error></Errors></Response>",
			"<Error><Code>%s</Code><Message>no</Message></Error>", `{"__type":"com.amazonaws.sqs#%s","message":"no"}`,
		}
		return func(r *http.Request, w wire) (*http.Response, error) {
			return responseOf(r, status, fmt.Sprintf(forms[w], codes[w]))
		}
	}
	body := func(status int, text string) func(*http.Request, wire) (*http.Response, error) {
		return func(r *http.Request, _ wire) (*http.Response, error) { return responseOf(r, status, text) }
	}
	return []callFault{
		{"denied", code(http.StatusForbidden, [4]string{"AccessDenied", "UnauthorizedOperation", "AccessDenied", "AccessDeniedException"})},
		{"throttled", code(http.StatusBadRequest, [4]string{"Throttling", "RequestLimitExceeded", "SlowDown", "RequestThrottled"})},
		{"500", body(http.StatusInternalServerError, "")},
		{"empty", body(http.StatusOK, "")},
		{"garbage", body(http.StatusOK, "<html>502 Bad Gateway\x00")},
		{"page", body(http.StatusOK, "<html><body>502</body></html>")},
		{"timeout", func(r *http.Request, _ wire) (*http.Response, error) {
			<-r.Context().Done()
			return nil, context.Cause(r.Context())
		}},
	}
}

func responseOf(r *http.Request, status int, body string) (*http.Response, error) {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"text/xml"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// faultyClient answers calls of one action with a fault. It has the lists of S3.
type faultyClient struct {
	next awssdk.HTTPClient

	mu     sync.Mutex
	action string
	fault  callFault
	times  int
	hits   int
	calls  map[string]bool // actions so far
}

// set gives the next calls of an action a fault. It returns how many calls had the last one.
func (f *faultyClient) set(action string, fault callFault, times int) (hits int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	hits = f.hits
	f.action, f.fault, f.times, f.hits = action, fault, times, 0
	return hits
}

func (f *faultyClient) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hits
}

// requestOf returns the action of a request, and how its service answers.
func requestOf(r *http.Request, form url.Values) (action string, of wire) {
	switch _, target, sqs := strings.Cut(r.Header.Get("X-Amz-Target"), "."); {
	case sqs:
		return target, wireSQS
	case strings.Contains(r.Header.Get("Authorization"), "/s3/aws4_request") && r.URL.Query().Has("list-type"):
		return "ListObjectsV2", wireS3
	case strings.Contains(r.Header.Get("Authorization"), "/s3/aws4_request"):
		return "GetObject", wireS3
	case form.Get("Version") == "2016-11-15":
		return form.Get("Action"), wireEC2
	}
	return form.Get("Action"), wireQuery
}

func (f *faultyClient) Do(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	form, _ := url.ParseQuery(string(body))
	action, of := requestOf(r, form)
	f.mu.Lock()
	f.calls[action] = true
	hit := action == f.action && f.times > 0
	if hit {
		f.times--
		f.hits++
	}
	fault := f.fault
	f.mu.Unlock()
	switch {
	case hit:
		return fault.answer(r, of)
	case action == "ListObjectsV2":
		return responseOf(r, http.StatusOK, "<ListBucketResult><Contents><Key>fleets/c.json</Key></Contents></ListBucketResult>")
	case action == "GetObject":
		return responseOf(r, http.StatusOK, `{"cluster_autoscaling_resources": {"aws_spot_fleet_request": {"id": "sfr-c", "pool": "p"}}}`)
	}
	return f.next.Do(r)
}

// callRow is a call of the SDK. Its texts are those of docs/disaster.md.
type callRow struct {
	call  string // of the SDK
	as    string // its name in errors, if it has another one
	fails string // what follows while it fails
	shown string // where it is named
	// begin prepares a world in which step makes the call. A call without them is made by a pool that grows and shrinks.
	begin func(w *partsWorld)
	step  func(ctx context.Context, w *partsWorld) (done bool, err error)
	// silent are the faults that look like a right answer.
	silent string
	// lasts is how many ticks after the fault the call is made again, or its work takes; 0: 2.
	lasts int
}

const (
	inStatus = "first line of `weir status`"
	inRepair = "`weir node status`, and the findings of node health"
	inSwitch = "`weir node status`, or the log of the autoscaler without a policy"
)

// callRows returns a row for each call that package aws makes.
func callRows() []callRow {
	return []callRow{
		{call: "DescribeAutoScalingGroups", fails: "the Auto Scaling groups are unknown", shown: inStatus},
		{call: "DescribeInstanceRefreshes", fails: "the last known refreshes count", shown: inStatus, lasts: 4},
		{call: "DescribeScalingActivities", fails: "shortages of the group are unknown", shown: inStatus, begin: beginShort},
		{call: "SetDesiredCapacity", fails: "the target of the group stays, and the other groups grow", shown: inStatus},
		{call: "TerminateInstanceInAutoScalingGroup", fails: "no more terminations in the group for a while", shown: inStatus},
		{call: "DescribeSpotFleetRequests", fails: "the fleets are unknown", shown: inStatus},
		{call: "DescribeSpotFleetInstances", fails: "the fleet is unknown", shown: inStatus},
		{call: "DescribeSpotFleetRequestHistory", fails: "shortages of the fleet are unknown", shown: inStatus, begin: beginShort, step: func(_ context.Context, w *partsWorld) (bool, error) {
			w.server.SetTarget("sfr-e", 2) // as another user does
			return true, nil
		}},
		{call: "ModifySpotFleetRequest", fails: "the target of the fleet stays, and the other groups grow", shown: inStatus},
		{call: "TerminateInstances", fails: "no more terminations in the fleet for a while; denied: no node of the fleet is drained", shown: inStatus},
		{call: "DescribeInstances", fails: "launch times and addresses of new instances are unknown", shown: inStatus},
		{call: "DescribeInstanceTypes", fails: "sizes of new machines are unknown until their nodes join", shown: inStatus, lasts: 8, step: func(_ context.Context, w *partsWorld) (bool, error) {
			w.p.types.mu.Lock()
			defer w.p.types.mu.Unlock()
			clear(w.p.types.known) // as if new machines had new types
			return true, nil
		}},
		{call: "DescribeTags", fails: "the last known marks count, and a node without known marks is not removed", shown: inStatus},
		{call: "ListObjectsV2", as: "ListBucket", fails: "fleets that only the list has are unknown", shown: inStatus},
		{call: "GetObject", fails: "fleets that only the list has are unknown", shown: inStatus},
		{call: "GetQueueUrl", fails: "warnings and hints do not arrive; nodes are found by their silence", shown: inStatus, lasts: 3, step: func(ctx context.Context, w *partsWorld) (bool, error) {
			return true, (&queue{p: w.p}).find(ctx)
		}},
		{call: "ReceiveMessage", fails: "warnings and hints do not arrive; nodes are found by their silence", shown: inStatus, silent: "empty", lasts: 6},
		{call: "DeleteMessage", fails: "the message arrives again, and counts once", shown: inStatus, silent: "empty garbage page", lasts: 6, begin: beginBeside,
			step: func(_ context.Context, w *partsWorld) (bool, error) {
				w.server.Incident("AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED", w.server.Instances("a")[0].ID)
				return true, nil
			}},
		{call: "ChangeMessageVisibility", fails: "another pool receives its message 30 s later", shown: inStatus, silent: "empty garbage page", lasts: 6, begin: beginBeside,
			step: func(_ context.Context, w *partsWorld) (bool, error) {
				w.server.Rebalance(w.server.Instances("elsewhere")[0].ID)
				return true, nil
			}},
		{call: "DescribeInstanceStatus", fails: "no verdict of EC2: unknown, never failed", shown: inRepair, begin: beginBeside, step: inspect(false)},
		{call: "DescribeAutoScalingInstances", fails: "no verdict of Auto Scaling: unknown, never failed", shown: inRepair, begin: beginBeside, step: inspect(false)},
		{call: "DescribeTargetGroups", fails: "no verdict of load balancers: unknown, never failed", shown: inRepair, begin: beginBeside, step: inspect(true)},
		{call: "DescribeTargetHealth", fails: "no verdict of load balancers: unknown, never failed", shown: inRepair, begin: beginBeside, step: inspect(true)},
		{call: "GetConsoleOutput", fails: "the node has no console output", shown: "`weir node evidence`", begin: beginBeside, step: func(ctx context.Context, w *partsWorld) (bool, error) {
			_, err := w.other.Console(ctx, w.unfit())
			return err == nil, err
		}},
		{call: "CreateTags", fails: "the repair does not begin", shown: inRepair, begin: beginBeside, step: repair(api.RepairReboot)},
		{call: "RebootInstances", fails: "the repair is tried again", shown: inRepair, begin: beginBeside, step: repair(api.RepairReboot)},
		{call: "StopInstances", fails: "the repair is tried again", shown: inRepair, begin: beginReleased, step: repair(api.RepairReset), lasts: 20},
		{call: "StartInstances", fails: "the repair is tried again", shown: inRepair, begin: beginReleased, step: repair(api.RepairReset), lasts: 20},
		{call: "SetInstanceHealth", fails: "the mark at the end of the repair is tried again", shown: inRepair, begin: beginReleased, step: repair(api.RepairRebuild), lasts: 30},
		{call: "DescribeReplaceRootVolumeTasks", fails: "the repair is tried again", shown: inRepair, begin: beginBeside, step: repair(api.RepairRebuild), lasts: 30},
		{call: "CreateReplaceRootVolumeTask", fails: "the repair is tried again, and begins once", shown: inRepair, begin: beginBeside, step: repair(api.RepairRebuild), lasts: 30},
		{call: "DeregisterTargets", fails: "the fence is not confirmed, and the next one is tried", shown: inRepair, begin: beginBeside, step: isolate(pools.FenceTraffic), lasts: 12},
		{call: "ModifyNetworkInterfaceAttribute", fails: "the fence is not confirmed, and the next one is tried", shown: inRepair, begin: beginBeside, step: isolate(pools.FenceNetwork)},
		{call: "SuspendProcesses", fails: "the groups repair, and Weirkeeper does not", shown: inSwitch, begin: beginBeside, step: switchOwner((*Provider).ReleaseRepair)},
		{call: "CreateOrUpdateTags", fails: "the groups repair, and Weirkeeper does not", shown: inSwitch, begin: beginBeside, step: switchOwner((*Provider).ReleaseRepair)},
		{call: "ResumeProcesses", fails: "nobody repairs until it succeeds", shown: inSwitch, begin: beginReleased, step: switchOwner((*Provider).ResumeRepair)},
	}
}

// beginBeside adds a pool whose node health makes calls beside the autoscaler, and a group of no pool.
func beginBeside(w *partsWorld) {
	w.server.AddTargetGroup(front)
	w.server.AddGroup(awsfake.ASG{Name: "q", Max: 8, Desired: 2, ProtectNew: true, TargetGroups: []string{front}, Tags: map[string]string{tag: "c/q"}})
	w.server.AddGroup(awsfake.ASG{Name: "elsewhere", Max: 1, Desired: 1, Spot: true})
	w.server.Advance(time.Minute)
	cfg := configFor(w.server, AutoScaling)
	cfg.Pool, cfg.Client, cfg.Groups[0].Isolation = "q", w.client, cutOff
	w.other = open(w.T, cfg)
}

// beginShort adds a group and a fleet for which AWS has no machines.
func beginShort(w *partsWorld) {
	for _, zone := range []string{"a", "b", "c"} {
		w.server.SetStock(awsfake.Market{Type: "c5.large", Zone: "us-west-2" + zone}, 0)
	}
	w.server.AddGroup(awsfake.ASG{Name: "d", Min: 1, Max: 8, Desired: 1, Cold: true, ProtectNew: true, Types: []awsfake.Type{{Name: "c5.large"}}, Tags: map[string]string{tag: ours}})
	w.server.AddFleet(awsfake.SpotFleet{ID: "sfr-e", Cold: true, Tags: map[string]string{tag: ours}, Specs: []awsfake.LaunchSpec{{Type: "c5.large", Zone: "us-west-2a"}}, Target: 1})
}

// beginReleased adds that pool, whose groups do not repair.
func beginReleased(w *partsWorld) {
	beginBeside(w)
	if err := w.other.ReleaseRepair(w.Context()); err != nil {
		w.Fatal(err)
	}
}

// unfit returns an instance of the other pool.
func (w *partsWorld) unfit() string { return w.server.Instances("q")[0].ID }

// group returns the group of the other pool.
func (w *partsWorld) group(ctx context.Context) (repairer, error) {
	found, err := w.other.Groups(ctx)
	if err != nil {
		return nil, err
	}
	return found.Groups[0].(repairer), nil
}

func inspect(traffic bool) func(context.Context, *partsWorld) (bool, error) {
	return func(ctx context.Context, w *partsWorld) (bool, error) {
		all, err := w.other.Inspect(ctx, pools.Inspecting{Traffic: traffic, TargetGroups: []string{front}})
		for _, i := range all {
			if i.Machine.Fitness == pools.Unfit || i.Traffic.Fitness == pools.Unfit {
				w.Errorf("instance %s is unfit by a call that failed: %+v", i.ID, i)
			}
			if traffic && i.Traffic.Fitness != pools.Fit {
				err = errors.Join(err, errors.New(i.Traffic.Why))
			}
		}
		return err == nil, err
	}
}

func repair(kind api.RepairKind) func(context.Context, *partsWorld) (bool, error) {
	return func(ctx context.Context, w *partsWorld) (bool, error) {
		g, err := w.group(ctx)
		if err != nil {
			return false, err
		}
		done, err := g.RepairInPlace(ctx, pools.InPlaceRepair{Instance: w.unfit(), Kind: kind, Attempt: fmt.Sprint("repair-", w.round)})
		if done {
			w.round++
		}
		return done, err
	}
}

func isolate(way pools.Fence) func(context.Context, *partsWorld) (bool, error) {
	return func(ctx context.Context, w *partsWorld) (bool, error) {
		g, err := w.group(ctx)
		if err != nil {
			return false, err
		}
		return g.Isolate(ctx, w.unfit(), way)
	}
}

func switchOwner(call func(*Provider, context.Context) error) func(context.Context, *partsWorld) (bool, error) {
	return func(ctx context.Context, w *partsWorld) (bool, error) {
		err := call(w.other, ctx)
		return err == nil, err
	}
}

// inputs finds the calls of the SDK in a source file.
var inputs = regexp.MustCompile(`\b(?:autoscaling|ec2|elb|sqs|s3)\.([A-Z]\w+)Input\b`)

// Each call of the SDK that the source makes has a row, so a new call without one fails.
func TestEachCallHasARow(t *testing.T) {
	made := map[string]bool{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, found := range inputs.FindAllSubmatch(text, -1) {
			made[string(found[1])] = true
		}
	}
	var rows []string
	for _, row := range callRows() {
		rows = append(rows, row.call)
	}
	slices.Sort(rows)
	if calls := slices.Sorted(maps.Keys(made)); !slices.Equal(calls, rows) {
		t.Errorf("the source makes the calls %q, and the rows have %q", calls, rows)
	}
}

// Each call to AWS fails in each way, once, for a minute, and for a long time, while the need grows and then falls. The rest of the
// pool grows, and nothing ends that is needed. The first line of the status names the call within two ticks, and two ticks after the
// end of the fault all is as wanted. CALLS=all tries each fault of each call for each time.
func TestEachCallFails(t *testing.T) {
	t.Parallel()
	if testprograms.WithoutRace(t, "pools/aws") {
		return
	}
	times := []int{0, 6, 30}
	for i, row := range callRows() {
		for j, fault := range callFaults() {
			for k, ticks := range times {
				if (i+2*j+4*k)%7 != 0 && os.Getenv("CALLS") != "all" {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%d ticks", row.call, fault.name, ticks), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { eachCallFails(t, row, fault, ticks) })
				})
			}
		}
	}
}

func eachCallFails(t *testing.T, row callRow, fault callFault, ticks int) {
	w := newPartsWorld(t)
	if row.begin != nil {
		row.begin(w)
	}
	w.ticks(3)
	if w.last.Failed != "" || len(w.last.Problems) > 0 {
		t.Fatalf("failed %q, problems %q before the fault", w.last.Failed, w.last.Problems)
	}
	fails := func(grows bool) (hits int) {
		times := 1 << 30
		if ticks == 0 {
			times = 1
		}
		w.client.set(row.call, fault, times)
		w.fail(row, fault, max(ticks, 6), ticks > 0)
		hits = w.client.set("", callFault{}, 0)
		w.recovers(row, grows)
		return hits
	}
	w.need = 12
	hits := fails(true)
	if w.weight() < 12 {
		t.Errorf("the pool has the weight %d, want 12: %q", w.weight(), w.warnings())
	}
	if w.ended() > 0 {
		t.Errorf("%d instances ended while the need grew", w.ended())
	}
	w.ticks(30) // backoffs end
	w.need = 4
	falling := fails(false)
	if most := 8; fault.name == "denied" && strings.HasPrefix(row.call, "Terminate") && falling > most {
		t.Errorf("%d rejected calls in %d ticks, want at most %d", falling, max(ticks, 6), most)
	}
	w.ticks(60)
	if w.weight() != 4 || w.last.Failed != "" || len(w.last.Problems) > 0 {
		t.Errorf("the pool has the weight %d, failed %q, problems %q long after the fault; want 4 and none", w.weight(), w.last.Failed, w.last.Problems)
	}
	if !w.client.calls[row.call] || ticks == 30 && hits+falling == 0 {
		t.Errorf("%s had %d and %d faults: want some", row.call, hits, falling)
	}
}

// fail runs ticks while a call has a fault. If it lasts, the call is named within two ticks.
func (w *partsWorld) fail(row callRow, fault callFault, ticks int, lasts bool) {
	w.Helper()
	name := row.call
	if row.as != "" {
		name = row.as
	}
	silent := strings.Contains(row.silent, fault.name)
	before, named := -1, false // tick of the first fault
	for i := range ticks {
		w.ticks(1)
		if w.weight() < 4 {
			w.Fatalf("the pool has the weight %d, want at least 4", w.weight())
		}
		hits := w.client.count()
		if row.step != nil {
			done, err := w.beside(row)
			if row.shown != inStatus && w.client.count() > hits && lasts && !silent && (err == nil || !strings.Contains(err.Error(), name)) {
				w.Errorf("done %t, %v after a fault: want an error of %s", done, err, name)
			}
		}
		if hits > 0 && before < 0 {
			before = i
		}
		lines := w.warnings()
		named = named || len(lines) > 0 && strings.Contains(lines[0], name)
		if due := before + max(row.lasts, 2) - 1; !named && row.shown == inStatus && !silent && lasts && before >= 0 && i == due {
			w.Errorf("the status is %q at the second tick, want a first line with %s", lines, name)
		}
	}
}

// recovers runs ticks after a fault, until all is as wanted. A pool that shrinks then may have terminations in progress.
func (w *partsWorld) recovers(row callRow, grows bool) {
	w.Helper()
	for range max(row.lasts, 2) {
		w.ticks(1)
		if row.step == nil {
			continue
		}
		if done, err := w.beside(row); done && row.shown != inStatus {
			row.step = nil
		} else if err != nil && row.lasts == 0 {
			w.Errorf("%v after the fault", err)
		}
	}
	if row.step != nil && row.shown != inStatus {
		w.Errorf("%s did not succeed in %d ticks after the fault", row.call, max(row.lasts, 2))
	}
	if w.last.Failed != "" || len(w.last.Parts) > 0 || grows && len(w.last.Problems) > 0 {
		w.Errorf("failed %q, problems %q %d ticks after the fault", w.last.Failed, w.last.Problems, max(row.lasts, 2))
	}
}

// beside runs the work of a row. It has more time than a call, so that a call without an answer ends by its own bound: an end of the
// work is not a failure of the call.
func (w *partsWorld) beside(row callRow) (bool, error) {
	ctx, cancel := context.WithTimeout(w.Context(), max(partsTick, queueTimeout)+time.Second)
	defer cancel()
	return row.step(ctx, w)
}

// warnings returns the first lines of the status.
func (w *partsWorld) warnings() []string { return explain.Warnings(w.last.At, w.last) }

// The table of the calls in docs/disaster.md has the rows of this test.
func TestTableOfCalls(t *testing.T) {
	const begin, end, file = "<!-- calls -->\n", "<!-- end of calls -->", "../../docs/disaster.md"
	var faults []string
	for _, f := range callFaults() {
		faults = append(faults, f.name)
	}
	var table strings.Builder
	fmt.Fprintf(&table, "| call | %s |\n|---|---|\n", "while it is "+strings.Join(faults, ", ")+" | named in")
	for _, row := range callRows() {
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", row.call, row.fails, row.shown)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no part between %q and %q", file, begin, end)
	}
	page := before + begin + table.String() + end + after
	if *update {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if page != string(text) {
		t.Errorf("the table of calls in %s differs: run this test with -update", file)
	}
}
