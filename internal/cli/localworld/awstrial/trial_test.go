package awstrial

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
)

const valid = `region: us-west-2
groups: [{name: web, tags: {"weir:pool": c/p}, min: 1, max: 5, desired: 2, types: [{name: m5.large}]}]
fleets: [{id: sfr-batch, target: 3, specs: [{type: m5.large, zone: us-west-2a}]}]
agents: {cpus: 1, mem: 512, disk: 100}
`

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "aws.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A wrong file is rejected with a text that names the mistake.
func TestReadFile(t *testing.T) {
	if _, err := readFile(write(t, valid)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"unknown key":      {"region:", "regoin:", `unknown field "regoin"`},
		"empty":            {valid, "region: x\n", "no group, no fleet and no metric"},
		"not YAML":         {"region: us-west-2", "region: [", "aws.yaml"},
		"desired too high": {"desired: 2", "desired: 6", "group web: want 0 <= min <= desired <= max <= 1000"},
		"too many":         {"max: 5", "max: 5000", "group web: want"},
		"no name":          {"name: web", "min: 1", "aws.yaml"},
		"fleet id":         {"sfr-batch", "batch", "want an id like sfr-web"},
		"no zone":          {", zone: us-west-2a", "", "wants a type, a zone"},
		"same name twice":  {"groups: [", "groups: [{name: web}, ", "two groups or fleets have one name"},
		"weight":           {"{name: m5.large}", "{name: m5.large, weight: -1}", "a weight of at least 0"},
		"agent":            {"cpus: 1", "cpus: 0", "want cpus, mem and disk above 0"},
		"metric":           {"agents:", "metrics: [{name: x}]\nagents:", "metrics[0] wants a namespace and a name"},
		"duration":         {"agents:", "boot: -1s\nagents:", "want at least 0s"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readFile(write(t, strings.Replace(valid, c.old, c.new, 1)))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// Each fault of the table reaches the server over the socket. A missing instance, a wrong number and an unknown fault are
// errors.
func TestFaultsOverTheSocket(t *testing.T) {
	data := t.TempDir()
	c := &control{owners: []string{"web"}}
	c.server = awsfake.New("http://aws.test", awsfake.Config{Start: time.Unix(0, 0)}, c.fail)
	defer c.server.Close()
	c.server.AddGroup(awsfake.ASG{Name: "web", Min: 1, Max: 5, Desired: 4, Spot: true})
	listener, err := listenControl(data)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: c}
	ended := make(chan error)
	go func() { ended <- server.Serve(listener) }()
	defer func() {
		server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	lost := c.server.Instances("web")[0].ID
	for _, f := range faults() {
		id := c.server.Instances("web")[0].ID // not of one that the fault before has ended
		args := strings.Fields(strings.NewReplacer("INSTANCE", id, "TYPE", "m5.large", "ZONE", "us-west-2a", "NUMBER", "1", "ACTION", "SetDesiredCapacity",
			"[RESOURCE]", "web", "DURATION", "1s", "NAMESPACE", "Shop", "NAME", "Backlog", "VALUE", "7", "[DIMENSIONS]", "QueueName=orders").Replace(f.use))
		if err := callControl(t.Context(), data, http.MethodPost, order{args[0], args[1:]}, nil); err != nil {
			t.Errorf("%s: %v", f.use, err)
		}
	}
	for _, c := range []struct {
		order order
		want  string
	}{
		{order{"lose", []string{"i-none"}}, "no instance i-none"},
		{order{"lose", nil}, "want lose INSTANCE"},
		{order{"stock", []string{"m5.large", "us-west-2a", "many"}}, `"many" is not a whole number`},
		{order{"lag", []string{"-1s"}}, "is not a duration"},
		{order{"metric", []string{"Shop", "Backlog", "NaN"}}, `"NaN" is not a number`},
		{order{"metric", []string{"Shop", "Backlog", "1", "QueueName"}}, "want dimensions such as"},
		{order{"lag", []string{"now"}}, "is not a duration"},
		{order{"deny", []string{"SetDesiredCapcity"}}, `no action "SetDesiredCapcity": it has `},
		{order{"deny", []string{"SetDesiredCapacity", "wbe"}}, `no group, fleet, instance or queue "wbe"`},
		{order{"deny", []string{"DescribeInstances", "web"}}, "names no resource"},
		{order{"throttle", []string{"Terminate", "3"}}, "no action"},
		{order{"drop", []string{"SetDesiredCapacity", "-1"}}, "from 0 to"},
		{order{"lose", []string{lost}}, "or it ends"},
		{order{"burn", nil}, `no fault "burn"`},
	} {
		if err := callControl(t.Context(), data, http.MethodPost, c.order, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want %q", c.order, err, c.want)
		}
	}
	if err := callControl(t.Context(), data, http.MethodPost, order{"deny", []string{"autoscaling:SetDesiredCapacity", "weir-notices"}}, nil); err != nil {
		t.Errorf("a right as in a policy: %v", err)
	}
	var list []owned
	if err := callControl(t.Context(), data, http.MethodGet, nil, &list); err != nil || len(list) != 1 || list[0].Target != 4 {
		t.Errorf("list %+v, %v; want group web with target 4", list, err)
	}
}

// Without a trial a command names how to start one.
func TestNoTrial(t *testing.T) {
	err := callControl(context.Background(), t.TempDir(), http.MethodGet, nil, nil)
	if err == nil || !strings.Contains(err.Error(), `start it with "weir-local aws serve FILE"`) {
		t.Errorf("error %v", err)
	}
}

// A wrong line is an error that names the remedy.
func TestWrongLines(t *testing.T) {
	path := write(t, valid)
	for line, want := range map[string]string{
		"serve":                                `wants one file, but got 0 arguments`,
		"serve missing.yaml":                   "missing.yaml: no such file or directory",
		"serve " + path + " --addr :4599":      "want an address of loopback",
		"serve " + path + " --addr 10.0.0.1:1": "want an address of loopback",
		"fault interrupt":                      "want interrupt INSTANCE",
		"fault burn i-1":                       `"burn"`,
		"list all":                             `"all"`,
	} {
		t.Run(line, func(t *testing.T) {
			root := &command.Root{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard}
			top := root.Command()
			top.AddCommand(Command(root))
			err := root.Run(top, append([]string{"aws", "--data", t.TempDir()}, strings.Fields(line)...))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
}

// The groups and fleets of a file have their instances, and each instance the pool of its owner's tag.
func TestFileFillsTheServer(t *testing.T) {
	f, err := readFile(write(t, valid))
	if err != nil {
		t.Fatal(err)
	}
	s := awsfake.New("http://aws.test", f.config(time.Unix(0, 0), 0), func(err error) { t.Error(err) })
	defer s.Close()
	f.fill(s)
	if groups, fleets := s.Instances("web"), s.Instances("sfr-batch"); len(groups) != 2 || len(fleets) != 3 || !groups[0].Protected || !fleets[0].Spot {
		t.Errorf("instances %+v and %+v, want 2 protected ones and 3 spot instances", groups, fleets)
	}
	for owner, want := range map[string]string{"web": "c/p", "sfr-batch": "", "other": ""} {
		if got := (trial{file: f}).tagOf(awsfake.Instance{Owner: owner}); got != want {
			t.Errorf("pool of an instance of %s is %q, want %q", owner, got, want)
		}
	}
}

// Each start in a data folder has ids of its own. A damaged count is an error that names the file.
func TestStartsHaveIDsOfTheirOwn(t *testing.T) {
	f, err := readFile(write(t, valid))
	if err != nil {
		t.Fatal(err)
	}
	data, seen := t.TempDir(), map[string]bool{}
	for range 3 {
		serial, err := firstSerial(data)
		if err != nil {
			t.Fatal(err)
		}
		s := awsfake.New("http://aws.test", f.config(time.Unix(0, 0), serial), func(err error) { t.Error(err) })
		f.fill(s)
		for _, i := range s.Instances("") {
			if seen[i.ID] || len(i.ID) != len("i-00000000000000001") {
				t.Errorf("instance %s has the id of a start before, or another length", i.ID)
			}
			seen[i.ID] = true
		}
		s.Close()
	}
	if !seen["i-00000000000000001"] || len(seen) != 15 {
		t.Errorf("ids %v, want 15 from i-00000000000000001 on", seen)
	}
	if err := os.WriteFile(filepath.Join(data, "aws-starts"), []byte("many"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := firstSerial(data); err == nil || !strings.Contains(err.Error(), "aws-starts") {
		t.Errorf("a damaged count: %v", err)
	}
}
