package metadata_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/agent/metadata"
)

const tagPath = "tags/instance/"

// ec2 is an instance metadata service that requires IMDSv2: each read needs the token of an earlier PUT, which names its
// life in seconds.
type ec2 struct {
	values                  map[string]string           // below /latest/meta-data/
	serve                   map[string]http.HandlerFunc // replaces values
	token                   func(w http.ResponseWriter) // replaces the answer to PUT
	tokens, reads, unproven atomic.Int64                // requests
}

func usual() *ec2 {
	return &ec2{values: map[string]string{
		"instance-id": "i-0123456789abcdef0", "instance-type": "m7i.large",
		"placement/availability-zone": "eu-central-1a", "placement/region": "eu-central-1",
		tagPath + "Name": "web", tagPath + "aws:autoscaling:groupName": "web-asg", tagPath + "weir:pool": "prod/web",
	}}
}

func (e *ec2) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/latest/api/token" {
		e.tokens.Add(1)
		switch {
		case r.Method != http.MethodPut:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds") == "":
			w.WriteHeader(http.StatusBadRequest)
		case e.token != nil:
			e.token(w)
		default:
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
			fmt.Fprint(w, "secret")
		}
		return
	}
	if r.Header.Get("X-Aws-Ec2-Metadata-Token") != "secret" {
		e.unproven.Add(1)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	e.reads.Add(1)
	path := strings.TrimPrefix(r.URL.Path, "/latest/meta-data/")
	if serve := e.serve[path]; serve != nil {
		serve(w, r)
		return
	}
	value, ok := e.values[path]
	if path == "tags/instance" {
		var keys []string
		for _, p := range slices.Sorted(maps.Keys(e.values)) {
			if key, isTag := strings.CutPrefix(p, tagPath); isTag {
				keys = append(keys, key)
			}
		}
		value, ok = strings.Join(keys, "\n"), len(keys) > 0
	}
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "<html>404 - Not Found</html>")
		return
	}
	fmt.Fprint(w, value)
}

// start serves until the test ends. It ends open requests first.
func start(t *testing.T, e *ec2) (url string) {
	t.Helper()
	s := httptest.NewServer(e)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

func TestRead(t *testing.T) {
	t.Parallel()
	whole := metadata.Machine{
		ID: "i-0123456789abcdef0", Type: "m7i.large", Zone: "eu-central-1a", Region: "eu-central-1",
		Group: "web-asg", Cluster: "prod", Pool: "web",
	}
	for name, c := range map[string]struct {
		change func(*ec2)
		tag    string
		want   func(*metadata.Machine)
	}{
		"all": {},
		"tags are not in the metadata": {
			change: func(e *ec2) {
				maps.DeleteFunc(e.values, func(path, _ string) bool { return strings.HasPrefix(path, tagPath) })
			},
			want: func(m *metadata.Machine) { m.Group, m.Cluster, m.Pool, m.NoTags = "", "", "", true },
		},
		"no group": {
			change: func(e *ec2) { delete(e.values, tagPath+"aws:autoscaling:groupName") },
			want:   func(m *metadata.Machine) { m.Group = "" },
		},
		"a tag that was just removed": {
			change: func(e *ec2) {
				e.serve = map[string]http.HandlerFunc{tagPath + "aws:autoscaling:groupName": http.NotFound}
			},
			want: func(m *metadata.Machine) { m.Group = "" },
		},
		"Spot Fleet": {
			change: func(e *ec2) {
				delete(e.values, tagPath+"aws:autoscaling:groupName")
				e.values[tagPath+"aws:ec2spot:fleet-request-id"] = "sfr-1"
			},
			want: func(m *metadata.Machine) { m.Group = "sfr-1" },
		},
		"pool tag of Clusterman": {
			change: func(e *ec2) { e.values[tagPath+"puppet"] = `{"pool": "default", "paasta_cluster": "everywhere"}` }, tag: "puppet",
			want: func(m *metadata.Machine) { m.Cluster, m.Pool = "everywhere", "default" },
		},
		"another pool tag": {tag: "missing", want: func(m *metadata.Machine) { m.Cluster, m.Pool = "", "" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, want := usual(), whole
			if c.change != nil {
				c.change(e)
			}
			if c.want != nil {
				c.want(&want)
			}
			got, err := metadata.Read(t.Context(), metadata.Config{Endpoint: start(t, e), PoolTag: c.tag})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if e.tokens.Load() != 1 || e.unproven.Load() != 0 {
				t.Errorf("%d tokens for %d reads, and %d reads without one: want one token", e.tokens.Load(), e.reads.Load(), e.unproven.Load())
			}
		})
	}
}

// TestHostileMetadata: each wrong answer ends with an error that names the read data, and soon.
func TestHostileMetadata(t *testing.T) {
	t.Parallel()
	endless := func(w http.ResponseWriter, r *http.Request) {
		for line := strings.Repeat("x", 1024); r.Context().Err() == nil; {
			if _, err := fmt.Fprintln(w, line); err != nil {
				return
			}
		}
	}
	silent := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush() // the client may be gone
		<-r.Context().Done()
	}
	at := func(path string, serve http.HandlerFunc) func(*ec2) {
		return func(e *ec2) { e.serve = map[string]http.HandlerFunc{path: serve} }
	}
	is := func(path, value string) func(*ec2) { return func(e *ec2) { e.values[path] = value } }
	for name, c := range map[string]struct {
		change func(*ec2)
		want   string
	}{
		"no such service":           {func(e *ec2) { e.token = func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) } }, "instance-id"},
		"service is off":            {func(e *ec2) { e.token = func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) } }, "instance-id"},
		"token without its life":    {func(e *ec2) { e.token = func(w http.ResponseWriter) { fmt.Fprint(w, "secret") } }, "instance-id"},
		"no id":                     {func(e *ec2) { delete(e.values, "instance-id") }, "instance-id"},
		"empty id":                  {is("instance-id", " \n"), `instance-id: the answer is ""`},
		"id with control":           {is("instance-id", "i-1\x1b[2J"), `instance-id: the answer is "i-1\x1b[2J"`},
		"page for an id":            {is("instance-id", "<html> login"), "instance-id: the answer is"},
		"endless zone":              {at("placement/availability-zone", endless), "placement/availability-zone: "},
		"endless tags":              {at("tags/instance", endless), "request body too large"},
		"a value that does not end": {at("placement/region", silent), "within 5s"},
		"tags fail":                 {at("tags/instance", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }), "tags: "},
		"pool tag without a pool":   {is(tagPath+"weir:pool", "prod"), `tag weir:pool: its value is "prod": want CLUSTER/POOL`},
		"pool tag of two clusters":  {is(tagPath+"weir:pool", `{"pool": "a", "cluster": "b", "paasta_cluster": "c"}`), "tag weir:pool"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := usual()
			c.change(e)
			m, err := metadata.Read(t.Context(), metadata.Config{Endpoint: start(t, e)})
			if err == nil || !strings.Contains(err.Error(), c.want) || m != (metadata.Machine{}) {
				t.Errorf("Read() = %+v, %v, want an error with %q", m, err, c.want)
			}
		})
	}
}

// TestReadEndsWithItsContext: a token that does not come, as beyond the hop limit.
func TestReadEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() }))
	t.Cleanup(func() { hung.CloseClientConnections(); hung.Close() })
	if m, err := metadata.Read(ctx, metadata.Config{Endpoint: hung.URL}); err == nil || !strings.Contains(err.Error(), "instance-id") {
		t.Errorf("Read() = %+v, %v, want an error", m, err)
	}
}
