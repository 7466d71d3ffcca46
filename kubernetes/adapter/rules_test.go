package adapter

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
	"github.com/weirkeeper/weirkeeper/kubernetes/core"
	"github.com/weirkeeper/weirkeeper/pools"
)

var began = time.Unix(1_800_000_000, 0).UTC()

const drainTaint = `{"key":"weirkeeper.dev/draining","effect":"NoSchedule"}`

func TestCordonPatch(t *testing.T) {
	marked := func(mark string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Annotations = map[string]string{core.CordonAnnotation: mark} }
	}
	ours := func(n *corev1.Node) {
		n.Spec.Taints, n.Spec.Unschedulable = append(n.Spec.Taints, corev1.Taint{Key: core.DrainTaint, Effect: "NoSchedule"}), true
	}
	other := func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "gpu", Effect: "NoSchedule"})
	}
	closed := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	const mark21 = `{"epoch":2,"number":1,"on":true,"before":true,"at":"2027-01-15T07:59:00Z"}`
	for _, tt := range []struct {
		name   string
		change []func(*corev1.Node)
		on     bool
		at     pools.Sequence
		spec   string // of the patch; empty: unchanged
		mark   string // without the time; empty: no patch
		late   bool
	}{
		{"cordon", nil, true, pools.Sequence{Epoch: 1, Number: 2}, `{"taints":[` + drainTaint + `],"unschedulable":true}`, `{"epoch":1,"number":2,"on":true,"before":false`, false},
		{"cordon with another taint", []func(*corev1.Node){other}, true, pools.Sequence{Epoch: 1, Number: 2},
			`{"taints":[{"key":"gpu","effect":"NoSchedule"},` + drainTaint + `],"unschedulable":true}`, `{"epoch":1,"number":2,"on":true,"before":false`, false},
		{"cordon of a closed node", []func(*corev1.Node){closed}, true, pools.Sequence{Epoch: 1, Number: 2}, `{"taints":[` + drainTaint + `],"unschedulable":true}`, `{"epoch":1,"number":2,"on":true,"before":true`, false},
		{"repeated cordon", []func(*corev1.Node){ours, marked(mark21)}, true, pools.Sequence{Epoch: 2, Number: 2}, "", `{"epoch":2,"number":2,"on":true,"before":true`, false},
		{"cordon after a person opened the node", []func(*corev1.Node){ours, func(n *corev1.Node) { n.Spec.Unschedulable = false }, marked(mark21)}, true, pools.Sequence{Epoch: 2, Number: 2},
			`{"taints":[` + drainTaint + `],"unschedulable":true}`, `{"epoch":2,"number":2,"on":true,"before":true`, false},
		{"back", []func(*corev1.Node){other, ours, marked(`{"epoch":1,"number":1,"on":true}`)}, false, pools.Sequence{Epoch: 1, Number: 2},
			`{"taints":[{"key":"gpu","effect":"NoSchedule"}],"unschedulable":false}`, `{"epoch":1,"number":2,"on":false,"before":false`, false},
		{"back to a closed node", []func(*corev1.Node){ours, marked(mark21)}, false, pools.Sequence{Epoch: 2, Number: 2}, `{"taints":null,"unschedulable":true}`, `{"epoch":2,"number":2,"on":false,"before":true`, false},
		{"back without a mark", []func(*corev1.Node){ours}, false, pools.Sequence{Epoch: 2, Number: 2}, `{"taints":null,"unschedulable":false}`, `{"epoch":2,"number":2,"on":false,"before":false`, false},
		{"back without the taint", []func(*corev1.Node){closed, marked(mark21)}, false, pools.Sequence{Epoch: 2, Number: 2}, "", `{"epoch":2,"number":2,"on":false,"before":true`, false},
		{"back without anything", nil, false, pools.Sequence{}, "", "", false},
		{"late", []func(*corev1.Node){marked(mark21)}, true, pools.Sequence{Epoch: 1, Number: 9}, "", "", true},
		{"late by a number", []func(*corev1.Node){marked(`{"epoch":2,"number":5,"at":"2027-01-15T07:59:00Z"}`)}, true, pools.Sequence{Epoch: 2, Number: 4}, "", "", true},
		{"lower after a long time", []func(*corev1.Node){marked(`{"epoch":2,"number":1,"at":"2027-01-15T07:49:00Z"}`)}, true, pools.Sequence{Epoch: 1, Number: 9},
			`{"taints":[` + drainTaint + `],"unschedulable":true}`, `{"epoch":1,"number":9,"on":true,"before":false`, false},
		{"unreadable mark", []func(*corev1.Node){marked("{")}, true, pools.Sequence{Epoch: 1, Number: 1}, `{"taints":[` + drainTaint + `],"unschedulable":true}`, `{"epoch":1,"number":1,"on":true,"before":false`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "7"}}
			for _, f := range tt.change {
				f(n)
			}
			patch, err := cordonPatch(n, wire.CordonRequest{On: tt.on}, tt.at, began)
			var refusal *call.Error
			if late := errors.As(err, &refusal) && refusal.Code == wire.CodeLate; late != tt.late || err != nil && !late {
				t.Fatalf("error %v, want late %v", err, tt.late)
			}
			if tt.mark == "" {
				if patch != nil {
					t.Fatalf("patch %s, want none", patch)
				}
				return
			}
			var got struct {
				Metadata struct {
					ResourceVersion string
					Annotations     map[string]string
				}
				Spec json.RawMessage
			}
			if err := json.Unmarshal(patch, &got); err != nil {
				t.Fatal(err)
			}
			want := tt.mark + `,"at":"2027-01-15T08:00:00Z"}`
			if string(got.Spec) != tt.spec || got.Metadata.ResourceVersion != "7" || got.Metadata.Annotations[core.CordonAnnotation] != want {
				t.Errorf("patch %s, want the spec %s and the mark %s", patch, tt.spec, want)
			}
		})
	}
}

// The reason and the deadline of a cordon are in its mark until it is taken back.
func TestDeadlineOfACordon(t *testing.T) {
	spot := wire.CordonRequest{On: true, Reason: "spot interruption", Deadline: began.Add(2 * time.Minute)}
	for on, want := range map[bool]string{
		true:  `{"epoch":1,"number":1,"on":true,"before":false,"at":"2027-01-15T08:00:00Z","reason":"spot interruption","deadline":"2027-01-15T08:02:00Z"}`,
		false: `{"epoch":1,"number":1,"on":false,"before":false,"at":"2027-01-15T08:00:00Z"}`,
	} {
		spot.On = on
		patch, err := cordonPatch(&corev1.Node{}, spot, pools.Sequence{Epoch: 1, Number: 1}, began)
		quoted, _ := json.Marshal(want)
		if err != nil || !strings.Contains(string(patch), string(quoted)) {
			t.Errorf("on %v: patch %s, %v, want the mark %s", on, patch, err, want)
		}
	}
}

// The deadline of a spot machine is by the clock of another host. With a clock that is an hour off, the usual notice counts from the
// receipt, and pods have neither an hour nor a second.
func TestClockAnHourOff(t *testing.T) {
	for off, want := range map[time.Duration]time.Duration{0: 90 * time.Second, 20 * time.Second: 110 * time.Second, time.Hour: 2 * time.Minute, -time.Hour: 2 * time.Minute} {
		r := wire.CordonRequest{On: true, Reason: api.DrainSpot, Deadline: began.Add(90*time.Second + off)}
		patch, err := cordonPatch(&corev1.Node{}, r, pools.Sequence{Epoch: 1, Number: 1}, began)
		if quoted := `\"deadline\":\"` + began.Add(want).Format(time.RFC3339); err != nil || !strings.Contains(string(patch), quoted) {
			t.Errorf("a clock %v off: patch %s, %v, want an end after %v", off, patch, err, want)
		}
	}
	far := wire.CordonRequest{On: true, Reason: api.DrainRepair, Deadline: began.Add(20 * time.Hour)}
	if patch, err := cordonPatch(&corev1.Node{}, far, pools.Sequence{Epoch: 1, Number: 1}, began); err != nil || !strings.Contains(string(patch), "2027-01-16T04:00:00Z") {
		t.Errorf("a repair has its own time: %s, %v", patch, err)
	}
}

// Pods end before their machine. A pod that has more time keeps its own grace period.
func TestGraceBeforeTheEndOfAMachine(t *testing.T) {
	for _, tt := range []struct {
		grace int32
		left  time.Duration // of the machine; 0: it has no end
		want  int64         // 0: its own
	}{{30, 0, 0}, {30, 2 * time.Minute, 0}, {30, 35 * time.Second, 0}, {30, 34 * time.Second, 29}, {600, 2 * time.Minute, 115}, {30, 5 * time.Second, 1}, {30, -20 * time.Second, 1}, {30, -time.Hour, 0}, {3600, -time.Hour, 115}, {3600, time.Hour, 115}} {
		task := core.Task{Grace: tt.grace}
		if tt.left != 0 {
			task.Ends = began.Add(tt.left).Unix()
		}
		got := graceOf(began, task)
		if got == nil && tt.want != 0 || got != nil && *got != tt.want {
			t.Errorf("%d s of grace, %v left: %v, want %d", tt.grace, tt.left, got, tt.want)
		}
	}
	e := newEvictions(0)
	due := e.due(began, map[string][]core.Task{"a": {{UID: "1", Name: "waits"}}, "b": {{UID: "2", Name: "later", Ends: 200}}, "c": {{UID: "3", Name: "soon", Ends: 100}}})
	if diff := cmp.Diff([]string{"soon", "later", "waits"}, sent(due)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// sent returns the names of evictions.
func sent(list []eviction) (names []string) {
	for _, e := range list {
		names = append(names, e.Name)
	}
	return names
}

func TestEvictions(t *testing.T) {
	e := newEvictions(0)
	tasks := func(names ...string) map[string][]core.Task {
		all := map[string][]core.Task{}
		for _, n := range names {
			all["node"] = append(all["node"], core.Task{UID: "uid-" + n, Namespace: "ns", Name: n})
		}
		return all
	}
	ten := tasks("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
	ten["node"][0].Deleting = true
	first := e.due(began, ten)
	if diff := cmp.Diff([]string{"b", "c", "d", "e", "f", "g", "h", "i"}, sent(first)); diff != "" {
		t.Errorf("first evictions (-want +got):\n%s", diff)
	}
	if more := e.due(began, ten); len(more) > 0 {
		t.Errorf("%v beside those under way", sent(more))
	}
	refused := apierrors.NewTooManyRequests("budget", 0)
	for i, want := range []time.Duration{2, 4, 8, 16, 32, 60, 60} {
		if e.ended(began, first[0], refused) != (i == 0) {
			t.Errorf("refusal %d: the text changed, or not", i)
		}
		if got := first[0].pod.next.Sub(began); got != want*time.Second {
			t.Errorf("pause %d is %v, want %v s", i, got, want)
		}
	}
	e.ended(began, first[1], apierrors.NewTooManyRequests("budget", 9)) // the longer pause counts
	if got := first[1].pod.next.Sub(began); got != 9*time.Second {
		t.Errorf("pause %v, want 9 s", got)
	}
	if b := e.blocked("node"); len(b) != 2 || b[0].Task != "ns/b" || b[0].Why != "budget" || !b[0].Since.Equal(began) || len(e.blocked("other")) > 0 {
		t.Errorf("blocked %+v", b)
	}
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "d")
	for _, err := range []error{nil, gone, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "d", nil)} {
		if e.ended(began, first[2], err); first[2].pod.why != "" && err != nil && first[2].pod.sent < 3 {
			t.Errorf("%v: %q, want that it is done", err, first[2].pod.why)
		}
	}
	if why := first[2].pod.why; why != "its eviction was accepted, and it still runs" {
		t.Errorf("a pod that does not end: %q", why)
	}
	if now := e.due(began.Add(time.Second), ten); len(now) != 1 || now[0].Name != "j" {
		t.Errorf("due %v, want j alone", sent(now))
	}
	e.ended(began, first[3], nil)
	e.due(began.Add(time.Hour), nil)
	for _, p := range first[4:] {
		e.ended(began, p, nil)
	}
	if e.due(began.Add(time.Hour), nil); len(e.pods) != 1 || len(e.blocked("node")) > 0 {
		t.Errorf("%d pods after the drain, want only the one that is under way", len(e.pods))
	}
}

// A deleted pod that does not end, as with a finalizer, is named after its grace period.
func TestPodThatDoesNotEnd(t *testing.T) {
	e, pod := newEvictions(0), core.Task{UID: "1", Namespace: "ns", Name: "a", Grace: 30, Deleting: true}
	for after, want := range map[time.Duration]int{0: 0, 40 * time.Second: 0, 41 * time.Second: 1} {
		e.due(began, map[string][]core.Task{"node": {pod}})
		e.due(began.Add(after), map[string][]core.Task{"node": {pod}})
		b := e.blocked("node")
		if len(b) != want || want > 0 && (!strings.Contains(b[0].Why, "a finalizer") || !b[0].Since.Equal(began)) {
			t.Errorf("after %v: %+v, want %d", after, b, want)
		}
		e = newEvictions(0)
	}
}

// Each node has one turn in each period, whatever the times of the batches.
func TestTurn(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f", "g"}
	for _, step := range []time.Duration{70 * time.Millisecond, 100 * time.Millisecond, 333 * time.Millisecond, 900 * time.Millisecond} {
		got, most := map[string]int{}, 0
		var tn turn
		now := began
		for now.Sub(began) < 20*time.Second {
			due := tn.due(now, time.Second, func() []string { return names })
			most = max(most, len(due))
			for _, n := range due {
				got[n]++
			}
			now = now.Add(step)
		}
		periods := 0
		for _, n := range names {
			periods = max(periods, got[n])
		}
		for _, n := range names {
			if got[n] < periods-1 || got[n] < 10 {
				t.Errorf("step %v: turns %v", step, got)
			}
		}
		if step < 110*time.Millisecond && most > 3 {
			t.Errorf("step %v: %d nodes at once", step, most)
		}
	}
}
