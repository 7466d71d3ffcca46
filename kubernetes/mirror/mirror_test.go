package mirror_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirkeeper/weirkeeper/kubernetes/core"
	"github.com/weirkeeper/weirkeeper/kubernetes/kube"
	"github.com/weirkeeper/weirkeeper/kubernetes/kubetest"
	"github.com/weirkeeper/weirkeeper/kubernetes/mirror"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

// world is a mirror that runs, and its API server.
type world struct {
	*testing.T
	server *kubetest.Server
	*mirror.Mirror
}

// follow runs a mirror of the server until the test ends.
func follow(t *testing.T, server *kubetest.Server, change ...func(*mirror.Config)) *world {
	t.Helper()
	c := mirror.Config{Pools: []core.Pool{{Name: "p", Default: true}}, Pause: 50 * time.Millisecond, Log: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&c)
	}
	w := &world{t, server, mirror.New(c, server.Client(t))}
	ended := make(chan error)
	go func() { ended <- w.Mirror.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return w
}

// until waits until ok returns true. It calls ok again after each change.
func (w *world) until(what string, ok func() bool) {
	w.Helper()
	end := time.NewTimer(patience)
	defer end.Stop()
	poll := time.NewTicker(20 * time.Millisecond) // freshness also ends by time
	defer poll.Stop()
	for !ok() {
		select {
		case <-w.Changed():
		case <-poll.C:
		case <-end.C:
			w.Fatalf("not within %v: %s; %+v", patience, what, w.State(time.Now()))
		}
	}
}

func (w *world) untilFresh() {
	w.Helper()
	w.until("the mirror is fresh", func() bool { return w.State(time.Now()).Fresh })
}

// untilStale waits until the mirror is not fresh because of why.
func (w *world) untilStale(why string) {
	w.Helper()
	w.until("the mirror is not fresh: "+why, func() bool {
		s := w.State(time.Now())
		return !s.Fresh && strings.Contains(s.Why, why)
	})
}

// tasks returns the number of tasks of a node; -1: it does not publish.
func (w *world) tasks(node string) (n int) {
	w.Read(func(c *core.Cluster) {
		if f, ok := c.Facts(node, time.Now()); ok {
			n = f.Tasks
		} else {
			n = -1
		}
	})
	return n
}

func (w *world) untilTasks(node string, want int) {
	w.Helper()
	w.until("tasks of the node", func() bool { return w.tasks(node) == want })
}

func (w *world) counts(resource string) mirror.Counts {
	for _, c := range w.Counts() {
		if c.Resource == resource {
			return c
		}
	}
	w.Fatalf("no counts of %s", resource)
	return mirror.Counts{}
}

func forms(t *testing.T, run func(t *testing.T, server *kubetest.Server)) {
	for name, prepare := range map[string]func(*kubetest.Server){"protobuf": func(*kubetest.Server) {}, "JSON": (*kubetest.Server).JSON, "no initial events": (*kubetest.Server).Old} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := kubetest.Serve(t)
			prepare(server)
			run(t, server)
		})
	}
}

func TestFollows(t *testing.T) {
	forms(t, func(t *testing.T, server *kubetest.Server) {
		server.Put(kubetest.Node("a", "p"), kubetest.Pod("t1", "a"))
		w := follow(t, server)
		w.untilFresh()
		if n := w.tasks("a"); n != 1 {
			t.Errorf("%d tasks, want 1", n)
		}
		server.Put(kubetest.Pod("t2", "b"), kubetest.Node("b", "p"))
		w.untilTasks("b", 1)
		server.Change(kube.Pods, "default", "t2", func(o runtime.Object) { o.(*corev1.Pod).Status.Phase = corev1.PodSucceeded })
		w.untilTasks("b", 0)
		server.Delete(kube.Pods, "default", "t1")
		w.untilTasks("a", 0)
		server.Delete(kube.Nodes, "", "a")
		w.untilTasks("a", -1)
		if s := w.State(time.Now()); !s.Fresh {
			t.Errorf("state %+v", s)
		}
	})
}

// An API server without initial events in a watch is listed in pages.
func TestManyPages(t *testing.T) {
	forms(t, func(t *testing.T, server *kubetest.Server) {
		server.Put(kubetest.Node("a", "p"))
		var pods []runtime.Object
		for i := range 1100 {
			pods = append(pods, kubetest.Pod("t"+string(rune('a'+i%26))+time.Duration(i).String(), "a"))
		}
		server.Put(pods...)
		w := follow(t, server)
		w.untilFresh()
		if n := w.tasks("a"); n != 1100 {
			t.Errorf("%d tasks, want 1100", n)
		}
	})
}

// After a version has expired, all objects are listed again, and those that were deleted meanwhile are gone.
func TestExpiredVersion(t *testing.T) {
	forms(t, func(t *testing.T, server *kubetest.Server) {
		server.Put(kubetest.Node("a", "p"), kubetest.Pod("t1", "a"), kubetest.Pod("t2", "a"))
		w := follow(t, server)
		w.untilFresh()
		server.Fail(http.StatusServiceUnavailable, kube.Pods, kube.Nodes)
		w.untilStale("watch")
		server.Delete(kube.Pods, "default", "t1")
		server.Put(kubetest.Pod("t2", "a", func(p *corev1.Pod) { p.UID = "another" }), kubetest.Pod("t3", "a"), kubetest.Pod("t4", "a"))
		server.Expire()
		server.Fail(0, kube.Pods, kube.Nodes)
		w.untilFresh()
		if n, c := w.tasks("a"), w.counts(kube.Pods); n != 3 || c.Lists < 2 {
			t.Errorf("%d tasks after %d lists, want 3 after at least 2", n, c.Lists)
		}
	})
}

// An API server that ignores the request for initial events does not send their end. It is listed in pages.
func TestServerWithoutTheEndOfInitialEvents(t *testing.T) {
	for name, bookmark := range map[string]bool{"silent": false, "with a bookmark": true} {
		server := kubetest.Serve(t)
		server.Older()
		server.Put(kubetest.Node("a", "p"), kubetest.Pod("t1", "a"))
		w := follow(t, server, func(c *mirror.Config) {
			if !bookmark {
				c.Listing = 200 * time.Millisecond
			}
		})
		w.until(name+": the pod is received", func() bool {
			if bookmark {
				server.Bookmark()
			}
			return w.State(time.Now()).Fresh
		})
		if n := w.tasks("a"); n != 1 {
			t.Errorf("%s: %d tasks, want 1", name, n)
		}
		server.Put(kubetest.Pod("t2", "a"))
		w.untilTasks("a", 2)
	}
}

// A watch that ends as usual continues after the last event, and the mirror stays fresh.
func TestWatchEndsAsUsual(t *testing.T) {
	server := kubetest.Serve(t)
	server.Put(kubetest.Node("a", "p"))
	w := follow(t, server)
	w.untilFresh()
	for i, name := range []string{"t1", "t2", "t3"} {
		server.Put(kubetest.Pod(name, "a"))
		w.untilTasks("a", i+1)
		server.Drop()
	}
	w.untilFresh()
	if c := w.counts(kube.Pods); c.Lists != 1 {
		t.Errorf("%d lists, want one", c.Lists)
	}
}

// An error of one watch ends the freshness of all at once, and the pods that were received stay.
func TestErrorEndsFreshness(t *testing.T) {
	for _, resource := range []string{kube.Nodes, kube.Pods} {
		server := kubetest.Serve(t)
		server.Put(kubetest.Node("a", "p"), kubetest.Pod("t1", "a"))
		w := follow(t, server)
		w.untilFresh()
		server.Fail(http.StatusInternalServerError, resource)
		w.untilStale("watch " + resource)
		if n := w.tasks("a"); n != 1 {
			t.Errorf("%d tasks, want the one that is known", n)
		}
		server.Fail(0, resource)
		w.untilFresh()
	}
}

func TestMissingRight(t *testing.T) {
	server := kubetest.Serve(t)
	server.Fail(http.StatusForbidden, kube.Pods)
	w := follow(t, server)
	w.untilStale("the service account needs list and watch of pods")
	server.Fail(0, kube.Pods)
	w.untilFresh()
}

// A watch that sends nothing is not fresh after a while. Bookmarks keep it fresh.
func TestSilentWatch(t *testing.T) {
	server := kubetest.Serve(t)
	const stale = 400 * time.Millisecond
	w := follow(t, server, func(c *mirror.Config) { c.Stale = stale })
	w.untilFresh()
	opened := w.counts(kube.Pods).Errors
	for range 10 {
		before := w.State(time.Now()).AsOf
		server.Bookmark()
		w.until("a bookmark is received", func() bool { return w.State(time.Now()).AsOf.After(before) })
	}
	server.Hang(true)
	w.untilStale("") // by its age, or by the new watch
	w.until("the watch is opened again", func() bool { return w.counts(kube.Pods).Errors > opened })
	server.Hang(false)
	server.Put(kubetest.Node("a", "p"))
	w.untilTasks("a", 0)
	server.Bookmark()
	w.untilFresh()
}

// An event that cannot be read is named, and all objects are listed again.
func TestUnreadableEvent(t *testing.T) {
	server := kubetest.Serve(t)
	server.JSON()
	server.Put(kubetest.Node("a", "p"))
	w := follow(t, server)
	w.untilFresh()
	lists := w.counts(kube.Pods).Lists
	server.SendRaw(kube.Pods, `{"type":"ADDED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","uid":"x"},"spec":{"nodeName":"a","containers":[{"resources":{"requests":{"cpu":"1e3m"}}}]}}}`+"\n")
	w.until("the pods are listed again", func() bool { return w.counts(kube.Pods).Lists > lists })
	w.untilFresh()
	if n := w.tasks("a"); n != 0 {
		t.Errorf("%d tasks, want none", n)
	}
}

// While an API server is away, the mirror tries again with pauses of at most the configured one.
func TestServerIsAway(t *testing.T) {
	server := kubetest.Serve(t)
	server.Put(kubetest.Node("a", "p"))
	w := follow(t, server)
	w.untilFresh()
	server.Fail(http.StatusBadGateway, kube.Nodes, kube.Pods)
	w.until("ten attempts have failed", func() bool { return w.counts(kube.Pods).Errors > 10 })
	server.Fail(0, kube.Nodes, kube.Pods)
	w.untilFresh()
}
