// Package kubetest has an API server for tests, with nodes, pods, disruption budgets and volumes alone.
//
// It speaks the real wire format, in protobuf and JSON: lists in pages, watches with initial events and bookmarks, expired
// versions, merge patches with a resourceVersion, and evictions. [Serve] starts one on loopback for a test, and its methods
// change objects and inject faults. It has no scheduler and no controllers: a test does their work.
//
// All methods may be called concurrently.
package kubetest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirkeeper/weirkeeper/kubernetes/kube"
)

// Server is an API server in memory.
type Server struct {
	URL    string
	codecs serializer.CodecFactory
	web    *httptest.Server

	mu       sync.Mutex
	changed  chan struct{} // closed at each change
	version  int64
	oldest   int64              // watches from earlier versions have expired
	objects  map[string]*stored // by resource/namespace/name
	log      []event
	status   map[string]int   // of each answer about a resource; 0: work
	json     bool             // objects are sent as JSON, whatever the client accepts
	hang     bool             // watches send nothing
	old      bool             // no initial events in watches
	older    bool             // requests for initial events are ignored
	drops    map[string]int   // ends open watches of a resource when it rises
	requests []string         // METHOD PATH of all but watches and lists
	evict    EvictHandler     // nil: an eviction deletes the pod
	patch    func(n int) bool // reports whether the n-th patch meets a conflict
	patches  int
	refuse   string // METHOD of the requests about one object that are forbidden
}

// EvictHandler decides about an eviction. nil: the pod is deleted.
type EvictHandler func(pod *corev1.Pod) *metav1.Status

type stored struct {
	object  runtime.Object
	version int64
}

// event is a change of an object. before is nil if it was added.
type event struct {
	version           int64
	resource          string
	object, before    runtime.Object
	deleted, bookmark bool
	raw               string // bytes that are sent in its place, and end the watch
}

// New returns a server that does not listen yet.
func New() (*Server, error) {
	scheme, err := kube.Scheme()
	if err != nil {
		return nil, err
	}
	return &Server{codecs: serializer.NewCodecFactory(scheme), changed: make(chan struct{}), version: 100, objects: map[string]*stored{}, status: map[string]int{}, drops: map[string]int{}}, nil
}

// Serve starts a server that ends with the test.
func Serve(tb testing.TB) *Server {
	tb.Helper()
	s, err := New()
	if err != nil {
		tb.Fatal(err)
	}
	s.web = httptest.NewServer(s)
	s.URL = s.web.URL
	tb.Cleanup(func() {
		s.web.CloseClientConnections()
		s.web.Close()
	})
	return s
}

// Client returns a client of the server.
func (s *Server) Client(tb testing.TB) *kube.Client {
	tb.Helper()
	c, err := kube.New(kube.Config{Server: s.URL, Agent: "test"})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func resourceOf(o runtime.Object) string {
	switch o.(type) {
	case *corev1.Node:
		return kube.Nodes
	case *policyv1.PodDisruptionBudget:
		return kube.Budgets
	case *corev1.PersistentVolume:
		return kube.Volumes
	}
	return kube.Pods
}

func resources() []string { return []string{kube.Nodes, kube.Pods, kube.Budgets, kube.Volumes} }

func key(resource, namespace, name string) string { return resource + "/" + namespace + "/" + name }

// Put adds or changes objects. An object without a uid gets that of its name.
func (s *Server) Put(all ...runtime.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range all {
		s.putLocked(o)
	}
	s.wakeLocked()
}

// Fill adds new nodes and pods without copies of them. They are not sent as changes: call it before the first request.
func (s *Server) Fill(all ...runtime.Object) {
	s.set(func() {
		for _, o := range all {
			m, err := meta.Accessor(o)
			if err != nil {
				panic(err) // only nodes and pods are put
			}
			s.version++
			m.SetUID(types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", s.version, s.version)))
			m.SetResourceVersion(strconv.FormatInt(s.version, 10))
			s.objects[key(resourceOf(o), m.GetNamespace(), m.GetName())] = &stored{o, s.version}
		}
		s.oldest = s.version
	})
}

func (s *Server) putLocked(o runtime.Object) {
	o = o.DeepCopyObject()
	m, err := meta.Accessor(o)
	if err != nil {
		panic(err) // only nodes and pods are put
	}
	k := key(resourceOf(o), m.GetNamespace(), m.GetName())
	if m.GetUID() == "" {
		m.SetUID(types.UID("uid-" + m.GetName()))
	}
	s.version++
	m.SetResourceVersion(strconv.FormatInt(s.version, 10))
	e := event{version: s.version, resource: resourceOf(o), object: o}
	if was := s.objects[k]; was != nil {
		e.before = was.object
	}
	s.objects[k] = &stored{o, s.version}
	s.log = append(s.log, e)
}

// Change changes a copy of a node or pod that exists, and stores it.
func (s *Server) Change(resource, namespace, name string, change func(runtime.Object)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.objects[key(resource, namespace, name)]; was != nil {
		o := was.object.DeepCopyObject()
		change(o)
		s.putLocked(o)
		s.wakeLocked()
	}
}

// Delete deletes an object.
func (s *Server) Delete(resource, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deleteLocked(resource, namespace, name)
	s.wakeLocked()
}

func (s *Server) deleteLocked(resource, namespace, name string) {
	k := key(resource, namespace, name)
	if was := s.objects[k]; was != nil {
		delete(s.objects, k)
		s.version++
		s.log = append(s.log, event{version: s.version, resource: resource, object: was.object, before: was.object, deleted: true})
	}
}

// Node returns a node.
func (s *Server) Node(name string) *corev1.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.objects[key(kube.Nodes, "", name)]; o != nil {
		return o.object.(*corev1.Node).DeepCopy()
	}
	return nil
}

// Bookmark sends a bookmark to all watches.
func (s *Server) Bookmark() {
	s.set(func() {
		s.version++
		for _, resource := range resources() {
			s.log = append(s.log, event{version: s.version, resource: resource, bookmark: true})
		}
	})
}

// Expire forgets all changes: open watches end with an error, and watches from an earlier version are refused.
func (s *Server) Expire() {
	s.set(func() {
		s.version++
		s.oldest, s.log = s.version, nil
		s.dropLocked()
	})
}

// Drop ends all open watches.
func (s *Server) Drop() { s.set(s.dropLocked) }

func (s *Server) dropLocked() {
	for _, resource := range resources() {
		s.drops[resource]++
	}
}

// Fail answers each request about these resources with this status, until it is 0. It ends their open watches.
func (s *Server) Fail(status int, resources ...string) {
	s.set(func() {
		for _, r := range resources {
			s.status[r] = status
			s.drops[r]++
		}
	})
}

// Refuse makes the server refuse requests with this method about one object for lack of a right; empty: none.
func (s *Server) Refuse(method string) { s.set(func() { s.refuse = method }) }

// JSON makes the server send JSON only.
func (s *Server) JSON() { s.set(func() { s.json = true }) }

// Hang stops all watches from sending, until it is false.
func (s *Server) Hang(on bool) { s.set(func() { s.hang = on }) }

// Old makes the server one of an earlier version: it sends no initial events.
func (s *Server) Old() { s.set(func() { s.old = true }) }

// Older makes the server one that ignores requests for initial events: it sends all objects, and not their end.
func (s *Server) Older() { s.set(func() { s.older = true }) }

// OnEvict sets what decides about evictions.
func (s *Server) OnEvict(f EvictHandler) { s.set(func() { s.evict = f }) }

// OnPatch sets what reports whether a patch, counted from 1, meets a conflict.
func (s *Server) OnPatch(f func(n int) bool) { s.set(func() { s.patch = f }) }

// Requests returns METHOD PATH of the requests that were not lists or watches. That of an eviction with a grace period ends with it.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

func (s *Server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.wakeLocked()
}

func (s *Server) wakeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/api/v1/"), "/apis/policy/v1/"), "/")
	resource := path[0]
	if resource == "namespaces" {
		resource = kube.Pods
	}
	s.mu.Lock()
	status := s.status[resource]
	if len(path) > 1 && r.Method == s.refuse {
		status = http.StatusForbidden
	}
	s.mu.Unlock()
	switch {
	case status != 0:
		s.fail(w, r, status, http.StatusText(status))
	case len(path) == 1 && r.URL.Query().Get("watch") != "":
		s.watch(w, r, path[0])
	case len(path) == 1:
		s.list(w, r, path[0])
	case len(path) == 2 && path[0] == kube.Nodes:
		s.node(w, r, path[1])
	case len(path) == 5 && path[4] == "eviction":
		s.evicted(w, r, path[1], path[3])
	default:
		s.fail(w, r, http.StatusNotFound, "no such path")
	}
}

// media returns the serializer that the client accepts.
func (s *Server) media(r *http.Request) runtime.SerializerInfo {
	want := runtime.ContentTypeJSON
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.json && strings.Contains(r.Header.Get("Accept"), "protobuf") {
		want = runtime.ContentTypeProtobuf
	}
	info, _ := runtime.SerializerInfoForMediaType(s.codecs.SupportedMediaTypes(), want)
	return info
}

func (s *Server) encode(info runtime.SerializerInfo, o runtime.Object) []byte {
	switch shared := o.(type) { // the encoder sets the kind of the object
	case *corev1.Node:
		own := *shared
		o = &own
	case *corev1.Pod:
		own := *shared
		o = &own
	}
	group := corev1.SchemeGroupVersion
	switch shared := o.(type) {
	case *policyv1.PodDisruptionBudget:
		own := *shared
		o, group = &own, policyv1.SchemeGroupVersion
	case *policyv1.PodDisruptionBudgetList:
		group = policyv1.SchemeGroupVersion
	case *corev1.PersistentVolume:
		own := *shared
		o = &own
	}
	data, err := runtime.Encode(s.codecs.EncoderForVersion(info.Serializer, group), o)
	if err != nil {
		panic(err) // only known types are encoded
	}
	return data
}

func (s *Server) send(w http.ResponseWriter, r *http.Request, status int, o runtime.Object) {
	info := s.media(r)
	w.Header().Set("Content-Type", info.MediaType)
	w.WriteHeader(status)
	_, _ = w.Write(s.encode(info, o)) // the client may be gone
}

// fail answers with a status.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, code int, message string) {
	s.sendStatus(w, r, &metav1.Status{Code: int32(code), Message: message, Reason: reasonOf(code)})
}

func (s *Server) sendStatus(w http.ResponseWriter, r *http.Request, st *metav1.Status) {
	if st.Status = metav1.StatusFailure; st.Details != nil && st.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(st.Details.RetryAfterSeconds))
	}
	s.send(w, r, int(st.Code), st)
}

func reasonOf(code int) metav1.StatusReason {
	return map[int]metav1.StatusReason{
		http.StatusGone: metav1.StatusReasonExpired, http.StatusConflict: metav1.StatusReasonConflict, http.StatusNotFound: metav1.StatusReasonNotFound,
		http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests,
		http.StatusUnprocessableEntity: metav1.StatusReasonInvalid, http.StatusInternalServerError: metav1.StatusReasonInternalError,
	}[code]
}
