package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/disruption"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/nodelifecycle"
	"k8s.io/kubernetes/pkg/controller/podgc"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/statefulset"
)

const (
	workers = 2
	// queries is how many requests a second the controllers may send.
	queries = 200
	burst   = 400
	// checkPods is how often the collector of pods without a node looks, and goneFor how long their node is away before.
	checkPods = 2 * time.Second
	goneFor   = 2 * time.Second
	// monitor is how often the leases of kubelets are read. Their time at the start is startup.
	monitor = time.Second
	startup = time.Minute
	// evict, of nodes that are not ready: as in kube-controller-manager.
	evict, evictSlowly, largeCluster, unhealthyZone = 0.1, 0.01, 50, 0.55
)

// controllers runs those for Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, disruption budgets, the health of nodes, and
// pods without a node.
func controllers(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("want KUBECONFIG GRACE")
	}
	grace, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", args[0])
	if err != nil {
		return err
	}
	config.QPS, config.Burst = queries, burst
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	all := informers.NewSharedInformerFactory(client, 0)
	runs, err := build(ctx, client, all, grace)
	if err != nil {
		return err
	}
	all.Start(ctx.Done())
	var wg sync.WaitGroup
	for _, run := range runs {
		wg.Go(func() { run(ctx) })
	}
	wg.Wait()
	return nil
}

// build makes the controllers.
func build(ctx context.Context, client kubernetes.Interface, all informers.SharedInformerFactory, grace time.Duration) (runs []func(context.Context), err error) {
	core, apps := all.Core().V1(), all.Apps().V1()
	deployments, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), core.Pods(), client)
	if err != nil {
		return nil, fmt.Errorf("deployments: %w", err)
	}
	daemons, err := daemon.NewDaemonSetsController(ctx, apps.DaemonSets(), apps.ControllerRevisions(), core.Pods(), core.Nodes(), client, flowcontrol.NewBackOff(time.Second, time.Minute))
	if err != nil {
		return nil, fmt.Errorf("daemon sets: %w", err)
	}
	jobs, err := job.NewController(ctx, client, core.Pods(), all.Batch().V1().Jobs(), nil, nil)
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	nodes, err := nodelifecycle.NewNodeLifecycleController(ctx, all.Coordination().V1().Leases(), core.Pods(), core.Nodes(), apps.DaemonSets(), client,
		monitor, startup, grace, evict, evictSlowly, largeCluster, unhealthyZone)
	if err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	replicas := replicaset.NewReplicaSetController(ctx, apps.ReplicaSets(), core.Pods(), client, replicaset.BurstReplicas)
	sets := statefulset.NewStatefulSetController(ctx, core.Pods(), apps.StatefulSets(), core.PersistentVolumeClaims(), apps.ControllerRevisions(), client)
	// Budgets count the pods of the controllers above: other kinds need a client for scales.
	budgets := disruption.NewDisruptionController(ctx, core.Pods(), all.Policy().V1().PodDisruptionBudgets(), core.ReplicationControllers(), apps.ReplicaSets(), apps.Deployments(), apps.StatefulSets(),
		client, meta.NewDefaultRESTMapper(nil), nil, client.Discovery())
	pods := podgc.NewPodGCInternal(ctx, client, core.Pods(), core.Nodes(), 0, checkPods, goneFor)
	for _, run := range []func(context.Context, int){deployments.Run, daemons.Run, jobs.Run, replicas.Run, sets.Run, budgets.Run} {
		runs = append(runs, func(ctx context.Context) { run(ctx, workers) })
	}
	return append(runs, nodes.Run, pods.Run), nil
}
