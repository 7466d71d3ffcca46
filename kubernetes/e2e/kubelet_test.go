//go:build plane

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	leaseEvery = 2 * time.Second
	// endsAfter is how long a process of a pod runs on after the request to end.
	endsAfter = 300 * time.Millisecond
)

// kubelets take the place of the kubelets of all machines: each running machine gets a Node object, and its pods run.
type kubelets struct {
	*testing.T
	api *client
	aws *cloud

	mu    sync.Mutex
	nodes map[string]*kubelet // by the id of the machine
	names map[string]*kubelet // by the name of the node
	pods  map[string]*corev1.Pod
	busy  map[string]bool // pods whose change is under way, by uid
	lost  []string        // pods that ran when their machine ended
	seen  map[string]bool // ids of all machines that have run
	// joins reports whether a machine joins. holds reports whether a pod never ends. taints are those of new nodes.
	joins  func(machine string) bool
	holds  func(*corev1.Pod) bool
	mute   string // id of the machine whose kubelet does not renew its lease
	taints []corev1.Taint
}

// kubelet is that of one machine.
type kubelet struct {
	instance
	name string
	end  context.CancelFunc
}

// startKubelets follows the machines and the pods until the test ends.
func startKubelets(t *testing.T, api *client, aws *cloud) *kubelets {
	k := &kubelets{T: t, api: api, aws: aws, nodes: map[string]*kubelet{}, names: map[string]*kubelet{}, pods: map[string]*corev1.Pod{}, busy: map[string]bool{}, seen: map[string]bool{}}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { k.followMachines(ctx, &wg) })
	wg.Go(func() { k.followPods(ctx, &wg) })
	t.Cleanup(func() { stop(); wg.Wait() })
	return k
}

// set changes a field under the lock.
func (k *kubelets) set(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

// followMachines starts a kubelet for each running machine, and ends it with the machine.
func (k *kubelets) followMachines(ctx context.Context, wg *sync.WaitGroup) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		all, err := k.aws.instances(ctx)
		if err != nil {
			continue // it starts
		}
		running := map[string]instance{}
		for _, i := range all {
			if i.State == "running" {
				running[i.ID] = i
			}
		}
		k.set(func() {
			for id, node := range k.nodes {
				if _, is := running[id]; !is {
					node.end()
					delete(k.nodes, id)
					delete(k.names, node.name)
					for _, p := range k.pods {
						if p.Spec.NodeName == node.name && p.Status.Phase == corev1.PodRunning && !daemon(p) {
							k.lost = append(k.lost, p.Name)
						}
					}
				}
			}
			for id, i := range running {
				k.seen[id] = true
				if k.nodes[id] != nil || k.joins != nil && !k.joins(id) {
					continue
				}
				life, end := context.WithCancel(ctx)
				node := &kubelet{i, nameOf(id), end}
				k.nodes[id], k.names[node.name] = node, node
				wg.Go(func() { k.run(life, node) })
			}
		})
	}
}

// nameOf returns the name of the node of a machine.
func nameOf(machine string) string { return "ip-" + machine[len(machine)-6:] }

func daemon(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "DaemonSet" })
}

// run registers a node, and renews its lease.
func (k *kubelets) run(ctx context.Context, node *kubelet) {
	tick := time.NewTicker(leaseEvery)
	defer tick.Stop()
	for {
		mute := false
		k.set(func() { mute = k.mute == node.ID })
		if !mute {
			_ = k.renew(ctx, node) // while the API server is away, the next attempt follows
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// renew makes a node Ready, and renews its lease. It registers a node that is missing.
func (k *kubelets) renew(ctx context.Context, node *kubelet) error {
	var n corev1.Node
	err := k.api.do(ctx, http.MethodGet, "/api/v1/nodes/"+node.name, nil, &n)
	if codeOf(err) == http.StatusNotFound {
		err = k.api.do(ctx, http.MethodPost, "/api/v1/nodes", k.object(node), &n)
	}
	if err != nil {
		return err
	}
	if !ready(&n) {
		if err := k.api.do(ctx, http.MethodPatch, "/api/v1/nodes/"+node.name+"/status", map[string]any{"status": status(node)}, nil); err != nil {
			return err
		}
	}
	const leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
	seconds, now := int32(40), metav1.NowMicro()
	lease := coordination.Lease{ObjectMeta: metav1.ObjectMeta{Name: node.name}, Spec: coordination.LeaseSpec{HolderIdentity: &node.name, LeaseDurationSeconds: &seconds, RenewTime: &now}}
	err = k.api.do(ctx, http.MethodPatch, leases+"/"+node.name, map[string]any{"spec": lease.Spec}, nil)
	if codeOf(err) == http.StatusNotFound {
		err = k.api.do(ctx, http.MethodPost, leases, lease, nil)
	}
	return err
}

func podReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// object returns a new Node object, as a kubelet registers it.
func (k *kubelets) object(node *kubelet) *corev1.Node {
	k.mu.Lock()
	defer k.mu.Unlock()
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node.name, Labels: map[string]string{
			"weirkeeper.dev/pool": pool, "weirkeeper.dev/group": node.Owner, "kubernetes.io/hostname": node.name,
			"topology.kubernetes.io/zone": node.Market.Zone, "node.kubernetes.io/instance-type": node.Market.Type,
		}},
		Spec:   corev1.NodeSpec{ProviderID: fmt.Sprintf("aws:///%s/%s", node.Market.Zone, node.ID), Taints: k.taints},
		Status: status(node),
	}
}

// status returns that of a node that is ready.
func status(node *kubelet) corev1.NodeStatus {
	now := metav1.Now()
	room := amounts("2", "8Gi")
	room[corev1.ResourcePods], room[corev1.ResourceEphemeralStorage] = amount("20"), amount("50Gi")
	return corev1.NodeStatus{
		Capacity: room, Allocatable: room, NodeInfo: corev1.NodeSystemInfo{BootID: fmt.Sprintf("boot-%s-%d", node.ID, node.Boots), KubeletVersion: "v1.37.2"},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: now, LastTransitionTime: now}},
	}
}

// followPods runs the pods of all nodes, and ends those that are deleted.
func (k *kubelets) followPods(ctx context.Context, wg *sync.WaitGroup) {
	for ctx.Err() == nil {
		k.set(func() { clear(k.pods) })
		_ = k.api.watch(ctx, "/api/v1/pods", func(e event) { // it ends with the API server
			var p corev1.Pod
			if json.Unmarshal(e.Object, &p) != nil {
				return
			}
			k.set(func() {
				if delete(k.pods, string(p.UID)); e.Type != "DELETED" {
					k.pods[string(p.UID)] = &p
					k.actLocked(ctx, wg, &p)
				}
			})
		})
		pause(ctx, every)
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// actLocked does what a pod needs now.
func (k *kubelets) actLocked(ctx context.Context, wg *sync.WaitGroup, p *corev1.Pod) {
	act := k.begin
	switch {
	case k.names[p.Spec.NodeName] == nil || k.busy[string(p.UID)]:
		return
	case p.DeletionTimestamp != nil:
		if k.holds != nil && k.holds(p) {
			return
		}
		act = k.finish
	case p.Status.Phase == corev1.PodRunning && !podReady(p): // its node was not Ready for a while
	case p.Status.Phase != corev1.PodPending:
		return
	}
	k.busy[string(p.UID)] = true
	wg.Go(func() {
		for ctx.Err() == nil && act(ctx, p) != nil {
			pause(ctx, every)
		}
		k.set(func() {
			delete(k.busy, string(p.UID))
			if latest := k.pods[string(p.UID)]; latest != nil && latest.ResourceVersion != p.ResourceVersion {
				k.actLocked(ctx, wg, latest) // it changed meanwhile
			}
		})
	})
}

// begin lets a pod run.
func (k *kubelets) begin(ctx context.Context, p *corev1.Pod) error {
	now := metav1.Now()
	s := corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &now}
	for _, c := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady, corev1.PodInitialized} {
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	return gone(k.api.do(ctx, http.MethodPatch, pathOf(p)+"/status", map[string]any{"status": s}, nil))
}

// finish ends a pod that is deleted.
func (k *kubelets) finish(ctx context.Context, p *corev1.Pod) error {
	pause(ctx, endsAfter)
	now := int64(0)
	return gone(k.api.do(ctx, http.MethodDelete, pathOf(p), metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &p.UID}}, nil))
}

// gone returns nil for an error about an object that is missing, or another one now.
func gone(err error) error {
	if code := codeOf(err); code == http.StatusNotFound || code == http.StatusConflict || code == http.StatusUnprocessableEntity {
		return nil
	}
	return err
}

func pathOf(p *corev1.Pod) string {
	return fmt.Sprintf("/api/v1/namespaces/%s/pods/%s", p.Namespace, p.Name)
}

// ever returns how many machines have run.
func (k *kubelets) ever() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.seen)
}

// running returns the pods that run, without those of DaemonSets, by the name of their node.
func (k *kubelets) running() map[string][]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := map[string][]string{}
	for _, p := range k.pods {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil && !daemon(p) {
			all[p.Spec.NodeName] = append(all[p.Spec.NodeName], p.Name)
		}
	}
	for _, names := range all {
		slices.Sort(names)
	}
	return all
}

// left returns how many pods, without those of DaemonSets, have not ended on the node of a machine.
func (k *kubelets) left(machine string) (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.pods {
		if p.Spec.NodeName == nameOf(machine) && !daemon(p) {
			n++
		}
	}
	return n
}

// machines returns the ids of the machines that have joined.
func (k *kubelets) machines() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.nodes))
}
