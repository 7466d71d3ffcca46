package agentd_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/agent"
	"github.com/weirkeeper/weirkeeper/internal/daemon/agentd"
	"github.com/weirkeeper/weirkeeper/resource"
)

// ec2 serves instance metadata by IMDSv2, with or without tags.
func ec2(t *testing.T, tags bool) (url string) {
	t.Helper()
	values := map[string]string{
		"instance-id": "i-1", "instance-type": "m7i.large", "placement/availability-zone": "eu-central-1a", "placement/region": "eu-central-1",
	}
	if tags {
		values["tags/instance"] = "aws:autoscaling:groupName\nweir:pool"
		values["tags/instance/aws:autoscaling:groupName"], values["tags/instance/weir:pool"] = "asg", "prod/web"
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value, ok := values[strings.TrimPrefix(r.URL.Path, "/latest/meta-data/")]
		switch {
		case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token":
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "60")
			fmt.Fprint(w, "secret")
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "secret":
			w.WriteHeader(http.StatusUnauthorized)
		case !ok:
			w.WriteHeader(http.StatusNotFound)
		default:
			fmt.Fprint(w, value)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// place returns a Place whose command line has these flags, on a machine with 8 cpus, 16 GiB and 100 GB.
func place(s agent.Settings, flags ...string) agentd.Place {
	return agentd.Place{
		Given: func(flag string) bool { return strings.Contains(" "+strings.Join(flags, " ")+" ", " "+flag+" ") },
		Block: s, File: "/etc/weir/weir.yaml", Dir: "/data/instances", Log: slog.New(slog.DiscardHandler),
		Getenv:  func(string) string { return "" },
		Measure: func(string) (resource.Vector, error) { return resource.Vector{8, 16384, 100000, 0}, nil },
	}
}

func TestFirstPlaceWithAValueIsUsed(t *testing.T) {
	t.Parallel()
	found := agent.Config{Cluster: "prod", Pool: "web", Group: "asg", ID: "i-1", Type: "m7i.large", Zone: "eu-central-1a", Region: "eu-central-1",
		DataDir: "/data/instances", Resources: resource.Vector{8, 16384, 100000, 0}}
	for name, c := range map[string]struct {
		flags     agent.Config
		given     []string
		block     agent.Settings
		variables map[string]string
		tags      bool
		want      func(*agent.Config)
	}{
		"metadata alone": {tags: true, want: func(*agent.Config) {}},
		"the block comes before the metadata": {
			tags: true, block: agent.Settings{Pool: "api", Group: "g"},
			want: func(c *agent.Config) { c.Pool, c.Group = "api", "g" },
		},
		"flags come before the block": {
			tags: true, flags: agent.Config{Pool: "flag", DataDir: "/flag"}, given: []string{"pool", "dir"}, block: agent.Settings{Pool: "api", Dir: "/block"},
			want: func(c *agent.Config) { c.Pool, c.DataDir = "flag", "/flag" },
		},
		"variables come before the metadata": {
			tags: true, variables: map[string]string{"CMAN_CLUSTER": "other", "CMAN_POOL": "batch"},
			want: func(c *agent.Config) { c.Cluster, c.Pool = "other", "batch" },
		},
		"the block comes before the variables": {
			tags: true, block: agent.Settings{Pool: "api"}, variables: map[string]string{"CMAN_CLUSTER": "other", "CMAN_POOL": "batch"},
			want: func(c *agent.Config) { c.Cluster, c.Pool = "other", "api" },
		},
		"metadata without tags": {
			block: agent.Settings{Cluster: "prod", Pool: "web", Group: "asg"}, want: func(*agent.Config) {},
		},
		"resources": {
			tags: true, flags: agent.Config{Resources: resource.Vector{2, 0, 0, 0}}, given: []string{"cpus"},
			block: agent.Settings{Resources: agent.Quantities{Mem: new(1000.0), GPUs: new(1.0)}, Reserve: agent.Quantities{CPUs: new(1.0), Mem: new(5.0), Disk: new(10.0)}},
			want:  func(c *agent.Config) { c.Resources = resource.Vector{2, 1000, 99990, 1} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.block.MetadataEndpoint = ec2(t, c.tags)
			want := found
			c.want(&want)
			p := place(c.block, c.given...)
			p.Getenv = func(name string) string { return c.variables[name] }
			got, err := p.Choose(t.Context(), c.flags)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestMissingValueNamesAllPlaces: the error of a missing name has the flag, the key of the file, and what the metadata
// say.
func TestMissingValueNamesAllPlaces(t *testing.T) {
	t.Parallel()
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	for name, c := range map[string]struct {
		block agent.Settings
		want  []string
	}{
		"metadata off": {agent.Settings{Metadata: agent.MetadataOff}, []string{"find the group", "find the id", "find the cluster", "find the pool", "--group is not given", "CMAN_CLUSTER is not set; ", "CMAN_POOL is not set; ", "agent.group is not set in /etc/weir/weir.yaml", `agent.metadata is "off"`}},
		"no metadata":  {agent.Settings{MetadataEndpoint: away.URL, Cluster: "c", Pool: "p", Group: "g"}, []string{"find the id", "--id", "agent.id", "EC2 metadata: read the EC2 instance metadata"}},
		"no tags":      {agent.Settings{MetadataEndpoint: ec2(t, false)}, []string{"find the group", "InstanceMetadataTags", "weir:pool"}},
		"no pool tag":  {agent.Settings{MetadataEndpoint: ec2(t, true), PoolTag: "other"}, []string{"find the pool", "no tag of its pool, other"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := place(c.block).Choose(t.Context(), agent.Config{})
			for _, text := range c.want {
				if err == nil || !strings.Contains(err.Error(), text) {
					t.Errorf("Choose() = %v, want an error with %q", err, text)
				}
			}
		})
	}
}

// A resource beyond what the machine has, such as memory in bytes, is in the log of the start.
func TestResourcesBeyondTheMachineAreLogged(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	p := place(agent.Settings{}, "mem")
	p.Log = slog.New(slog.NewTextHandler(&lines, nil))
	c := agent.Config{Cluster: "c", Pool: "p", Group: "g", ID: "i", Resources: resource.Vector{0, 17179869184}}
	if _, err := p.Choose(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if got := lines.String(); !strings.Contains(got, "offers more than this machine has") || !strings.Contains(got, "resource=mem") || !strings.Contains(got, "machine_has=16384") {
		t.Errorf("log %q, want that mem exceeds the machine", got)
	}
}

func TestResourcesThatAreNotKnownAreAnError(t *testing.T) {
	t.Parallel()
	c := agent.Config{Cluster: "c", Pool: "p", Group: "g", ID: "i"}
	p := place(agent.Settings{Reserve: agent.Quantities{Mem: new(20000.0)}})
	if _, err := p.Choose(t.Context(), c); err == nil || !strings.Contains(err.Error(), "agent.reserve.mem in /etc/weir/weir.yaml is 20000") {
		t.Errorf("with too large a reserve: %v", err)
	}
	p = place(agent.Settings{})
	p.Measure = func(string) (resource.Vector, error) { return resource.Vector{}, errors.New("no /proc") }
	if _, err := p.Choose(t.Context(), c); err == nil || !strings.Contains(err.Error(), "no /proc") || !strings.Contains(err.Error(), "agent.resources") {
		t.Errorf("without a measurement: %v", err)
	}
}
