package kubetest

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/weirkeeper/weirkeeper/kubernetes/kube"
)

// matches reports whether a request selects an object: the only selector is that of pods that have not finished.
func matches(r *http.Request, o runtime.Object) bool {
	p, is := o.(*corev1.Pod)
	return !is || !strings.Contains(r.URL.Query().Get("fieldSelector"), "status.phase!=") || p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// allLocked returns the objects that a request selects, in order of their keys.
func (s *Server) allLocked(r *http.Request, resource string) (all []runtime.Object) {
	var keys []string
	for k := range s.objects {
		if strings.HasPrefix(k, resource+"/") {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		if o := s.objects[k].object; matches(r, o) {
			all = append(all, o)
		}
	}
	return all
}

// list answers with a page.
func (s *Server) list(w http.ResponseWriter, r *http.Request, resource string) {
	s.mu.Lock()
	all, version := s.allLocked(r, resource), s.version
	s.mu.Unlock()
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	end := min(len(all), from+cmp.Or(limit, len(all)))
	m := metav1.ListMeta{ResourceVersion: strconv.FormatInt(version, 10)}
	if end < len(all) {
		m.Continue = strconv.Itoa(end)
	}
	s.send(w, r, http.StatusOK, listOf(resource, m, all[from:end]))
}

func listOf(resource string, m metav1.ListMeta, all []runtime.Object) runtime.Object {
	switch resource {
	case kube.Nodes:
		return &corev1.NodeList{ListMeta: m, Items: items[corev1.Node](all)}
	case kube.Budgets:
		return &policyv1.PodDisruptionBudgetList{ListMeta: m, Items: items[policyv1.PodDisruptionBudget](all)}
	case kube.Volumes:
		return &corev1.PersistentVolumeList{ListMeta: m, Items: items[corev1.PersistentVolume](all)}
	}
	return &corev1.PodList{ListMeta: m, Items: items[corev1.Pod](all)}
}

func items[T any](all []runtime.Object) (out []T) {
	for _, o := range all {
		out = append(out, *any(o).(*T))
	}
	return out
}

// watch sends changes until the client or a fault ends it.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, resource string) {
	q := r.URL.Query()
	at, _ := strconv.ParseInt(q.Get("resourceVersion"), 10, 64)
	initial := q.Get("sendInitialEvents") == "true"
	s.mu.Lock()
	old, older, oldest, drops := s.old, s.older, s.oldest, s.drops[resource]
	var first []runtime.Object
	if initial {
		first, at = s.allLocked(r, resource), s.version
	}
	s.mu.Unlock()
	if initial && old {
		s.fail(w, r, http.StatusUnprocessableEntity, "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")
		return
	}
	if at < oldest {
		s.fail(w, r, http.StatusGone, "too old resource version")
		return
	}
	out := s.stream(w, r)
	for _, o := range first {
		if out.send(watch.Added, o) != nil {
			return
		}
	}
	if initial && !older && out.send(watch.Bookmark, mark(resource, at, true)) != nil {
		return
	}
	s.follow(out, r, resource, at, drops)
}

// follow sends the changes after a version.
func (s *Server) follow(out *stream, r *http.Request, resource string, at int64, drops int) {
	for {
		s.mu.Lock()
		next, changed, ended, gone := []event(nil), s.changed, s.drops[resource] != drops, at < s.oldest
		if !s.hang {
			from, _ := slices.BinarySearchFunc(s.log, at+1, func(e event, v int64) int { return cmp.Compare(e.version, v) })
			next = slices.Clone(s.log[from:])
		}
		s.mu.Unlock()
		if gone {
			_ = out.send(watch.Error, &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "too old resource version"})
			return
		}
		for _, e := range next {
			if at = e.version; e.resource == resource && out.event(r, e) != nil {
				return
			}
		}
		out.flush()
		if ended {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// event sends a change as the request sees it: an object that is no longer selected is deleted.
func (out *stream) event(r *http.Request, e event) error {
	if e.raw != "" {
		_, _ = io.WriteString(out.w, e.raw)
		return io.EOF
	}
	if e.bookmark {
		return out.send(watch.Bookmark, mark(e.resource, e.version, false))
	}
	was, is := e.before != nil && matches(r, e.before), !e.deleted && matches(r, e.object)
	switch {
	case is && was:
		return out.send(watch.Modified, e.object)
	case is:
		return out.send(watch.Added, e.object)
	case was:
		o := e.object.DeepCopyObject()
		if m, err := meta.Accessor(o); err == nil {
			m.SetResourceVersion(strconv.FormatInt(e.version, 10))
		}
		return out.send(watch.Deleted, o)
	}
	return nil
}

// mark returns the object of a bookmark.
func mark(resource string, version int64, initial bool) runtime.Object {
	m := metav1.ObjectMeta{ResourceVersion: strconv.FormatInt(version, 10)}
	if initial {
		m.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	switch resource {
	case kube.Nodes:
		return &corev1.Node{ObjectMeta: m}
	case kube.Budgets:
		return &policyv1.PodDisruptionBudget{ObjectMeta: m}
	case kube.Volumes:
		return &corev1.PersistentVolume{ObjectMeta: m}
	}
	return &corev1.Pod{ObjectMeta: m}
}

// stream writes the events of one watch.
type stream struct {
	s       *Server
	w       http.ResponseWriter
	info    runtime.SerializerInfo
	encoder streaming.Encoder
}

func (s *Server) stream(w http.ResponseWriter, r *http.Request) *stream {
	info := s.media(r)
	kind := info.MediaType
	if kind == runtime.ContentTypeProtobuf {
		kind += ";stream=watch"
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(http.StatusOK)
	out := &stream{s: s, w: w, info: info}
	frames := info.StreamSerializer.NewFrameWriter(w)
	out.encoder = streaming.NewEncoder(frames, s.codecs.EncoderForVersion(info.StreamSerializer.Serializer, corev1.SchemeGroupVersion))
	out.flush()
	return out
}

func (out *stream) flush() { out.w.(http.Flusher).Flush() }

// send writes an event.
func (out *stream) send(kind watch.EventType, o runtime.Object) error {
	return out.encoder.Encode(&metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: out.s.encode(out.info, o)}})
}

// SendRaw sends bytes as the next event of each watch of a resource, and ends it.
func (s *Server) SendRaw(resource, data string) {
	s.set(func() {
		s.version++
		s.log = append(s.log, event{version: s.version, resource: resource, raw: data})
	})
}

// node returns or patches a node.
func (s *Server) node(w http.ResponseWriter, r *http.Request, name string) {
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	o := s.objects[key(kube.Nodes, "", name)]
	s.mu.Unlock()
	switch {
	case o == nil:
		s.fail(w, r, http.StatusNotFound, "nodes \""+name+"\" not found")
	case r.Method == http.MethodPatch:
		s.patched(w, r, name)
	case r.Method == http.MethodDelete:
		s.Delete(kube.Nodes, "", name)
		s.send(w, r, http.StatusOK, &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusOK})
	default:
		s.send(w, r, http.StatusOK, o.object)
	}
}

// patched applies a merge patch to a node.
func (s *Server) patched(w http.ResponseWriter, r *http.Request, name string) {
	body, err := io.ReadAll(r.Body)
	var patch map[string]any
	if err == nil {
		err = json.Unmarshal(body, &patch)
	}
	if err != nil {
		s.fail(w, r, http.StatusBadRequest, err.Error())
		return
	}
	s.mu.Lock()
	s.patches++
	was := s.objects[key(kube.Nodes, "", name)].object.(*corev1.Node)
	version := nested(patch, "metadata", "resourceVersion")
	conflict := version != nil && version != was.ResourceVersion || s.patch != nil && s.patch(s.patches)
	next := &corev1.Node{}
	if !conflict {
		if next, err = merged(was, patch); err == nil {
			s.putLocked(next)
			s.wakeLocked()
		}
	}
	s.mu.Unlock()
	switch {
	case conflict:
		s.fail(w, r, http.StatusConflict, "the object has been modified")
	case err != nil:
		s.fail(w, r, http.StatusBadRequest, err.Error())
	default:
		s.send(w, r, http.StatusOK, next)
	}
}

func nested(m map[string]any, outer, inner string) any {
	in, _ := m[outer].(map[string]any)
	return in[inner]
}

// merged returns a node with a merge patch.
func merged(n *corev1.Node, patch map[string]any) (*corev1.Node, error) {
	data, err := json.Marshal(n)
	if err != nil {
		return nil, err
	}
	var all map[string]any
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	merge(all, patch)
	out := &corev1.Node{}
	if data, err = json.Marshal(all); err == nil {
		err = json.Unmarshal(data, out)
	}
	return out, err
}

func merge(into, patch map[string]any) {
	for k, v := range patch {
		inner, is := v.(map[string]any)
		switch {
		case v == nil:
			delete(into, k)
		case is:
			below, _ := into[k].(map[string]any)
			if below == nil {
				below = map[string]any{}
			}
			merge(below, inner)
			into[k] = below
		default:
			into[k] = v
		}
	}
}

// evicted answers an eviction.
func (s *Server) evicted(w http.ResponseWriter, r *http.Request, namespace, name string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	o, _, err := s.codecs.UniversalDeserializer().Decode(body, nil, nil)
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path+graceOf(o))
	was, handler := s.objects[key(kube.Pods, namespace, name)], s.evict
	s.mu.Unlock()
	if err != nil || was == nil {
		s.fail(w, r, http.StatusNotFound, "pods \""+name+"\" not found")
		return
	}
	pod := was.object.(*corev1.Pod)
	if want := uidOf(o); want != "" && want != string(pod.UID) {
		s.fail(w, r, http.StatusConflict, "the UID in the precondition does not match")
		return
	}
	if handler != nil {
		if st := handler(pod); st != nil {
			s.sendStatus(w, r, st)
			return
		}
	}
	s.Delete(kube.Pods, namespace, name)
	s.send(w, r, http.StatusCreated, &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated})
}
