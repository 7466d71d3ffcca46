package arch

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// This module's tree breaks no rule.
func TestTree(t *testing.T) {
	problems, err := check(os.DirFS(filepath.Join("..", "..")), oversized)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
}

// TestRules plants one violation in each case, or code that only resembles one.
func TestRules(t *testing.T) {
	const ours = `"` + module + `/`
	tests := []struct {
		name string
		file string
		text string
		want string // part of the only problem; empty: no problem
	}{
		{"down", "pools/pools.go", "// Package pools is.\npackage pools\nimport _ " + ours + `resource"`, ""},
		{"up", "metrics/a.go", "// Package metrics is.\npackage metrics\nimport _ " + ours + `autoscaler"`, "floor loop is not below floor vocabulary"},
		{"same row", "autoscaler/a.go", "// Package autoscaler is.\npackage autoscaler\nimport _ " + ours + `nodehealth"`, "both are on floor loop, in the rooms autoscaler and nodehealth"},
		{"loop takes infrastructure", "autoscaler/a.go", "// Package autoscaler is.\npackage autoscaler\nimport _ " + ours + `internal/platform/bus"`, "floor services is not below floor loop"},
		{"client-go", "pools/aws/a.go", "// Package aws is.\npackage aws\nimport _ \"k8s.io/client-go/rest\"", "pools/aws imports k8s.io/client-go/rest: only the module kubernetes/ may"},
		{"adapters", "pools/aws/a.go", "// Package aws is.\npackage aws\nimport _ " + ours + `pools/local"`, "adapters never import each other"},
		{"adapter takes infrastructure", "pools/aws/a.go", "// Package aws is.\npackage aws\nimport _ " + ours + `internal/platform/bus"`, ""},
		{"one family", "pools/local/placerbus/a.go", "// Package placerbus is.\npackage placerbus\nimport _ " + ours + `agent"`, ""},
		{"program", "internal/ui/web/a_test.go", "package web\nimport _ " + ours + `cmd/weir"`, "no package may import a program"},
		{"test support", "autoscaler/a.go", "// Package autoscaler is.\npackage autoscaler\nimport _ " + ours + `pools/pooltest"`, "that is for tests"},
		{"test support in a test", "pools/aws/a_test.go", "package aws\nimport _ " + ours + `pools/pooltest"`, ""},
		{"only", "examples/signals/go/main.go", "// Command go is.\npackage main\nimport _ " + ours + `metrics"`, "an example imports what its reader may import"},
		{"only, and allowed", "examples/signals/go/main.go", "// Command go is.\npackage main\nimport _ " + ours + `signals/plugin"`, ""},
		{"by", "internal/ui/view/a.go", "// Package view is.\npackage view\nimport _ " + ours + `bootstrap/supervise"`, "processes are started in few places: it is only for [bootstrap"},
		{"loop takes a service", "harmonizer/a.go", "// Package harmonizer is.\npackage harmonizer\nimport _ " + ours + `internal/platform/spelling"`, "a loop reaches the world through its ports"},
		{"loop in a command", "internal/cli/command/a.go", "// Package command is.\npackage command\nimport _ " + ours + `autoscaler"`, "commands, pages and the history take the type from api"},
		{"server in weir", "internal/daemon/a.go", "// Package daemon is.\npackage daemon\nimport _ " + ours + `internal/platform/s3gateway"`, "the program weir has no server of its own"},
		{"SDK takes a module", "signals/plugin/a.go", "// Package plugin is.\npackage plugin\nimport _ \"github.com/google/go-cmp/cmp\"", "signals/plugin is part of the SDK and imports github.com/google/go-cmp/cmp"},
		{"SDK takes one of its modules", "signals/plugin/a.go", "// Package plugin is.\npackage plugin\nimport (_ \"google.golang.org/grpc\"; _ \"google.golang.org/grpc/health\")", ""},
		{"SDK takes the house", "signals/plugin/a.go", "// Package plugin is.\npackage plugin\nimport _ " + ours + `metrics"`, "is part of the SDK and imports " + module + "/metrics"},
		{"test of the SDK", "signals/plugin/a_test.go", "package plugin\nimport (_ \"github.com/google/go-cmp/cmp\"; _ " + ours + `metrics")`, ""},
		{"target without a row", "cmd/weir/a.go", "// Command weir is.\npackage main\nimport _ " + ours + `newcomer"`, "that is in no room"},
		{"no row", "newcomer/a.go", "// Package newcomer is.\npackage newcomer", "newcomer is in no room"},
		{"pure import", "pools/plan/a.go", "// Package plan is.\npackage plan\nimport _ \"sync\"", "is pure and imports sync"},
		{"pure module", "pools/plan/a.go", "// Package plan is.\npackage plan\nimport _ \"golang.org/x/sync/errgroup\"", "is pure and imports golang.org"},
		{"pure clock", "pools/plan/a.go", "// Package plan is.\npackage plan\nimport clock \"time\"\nfunc f() any { return clock.Now() }", "uses time.Now"},
		{"pure clock as a value", "pools/plan/a.go", "// Package plan is.\npackage plan\nimport \"time\"\nfunc f() any { return time.Since }", "uses time.Since"},
		{"pure time as a value", "pools/plan/a.go", "// Package plan is.\npackage plan\nimport \"time\"\nfunc f(now time.Time) time.Time { return now.Add(time.Second) }", ""},
		{"clock in a tick", "autoscaler/apply/a.go", "// Package apply is.\npackage apply\nimport \"time\"\nfunc f() any { return time.Now() }", "autoscaler/apply uses time.Now: it runs under virtual time too"},
		{"timer in a tick", "pools/drain/a.go", "// Package drain is.\npackage drain\nimport \"context\"\nfunc f(ctx context.Context) { context.WithTimeout(ctx, 1) }", "uses context.WithTimeout"},
		{"pause in a tick", "autoscaler/a.go", "// Package autoscaler is.\npackage autoscaler\nimport " + ours + `internal/platform/retry"` + "\nfunc f() { retry.Pause(nil, 1) }", "uses retry.Pause"},
		{"clock that drives a loop", "autoscaler/a.go", "// Package autoscaler is.\npackage autoscaler\nimport \"time\"\ntype l int\nfunc (l) Run() { time.NewTimer(1) }", ""},
		{"test of a pure package", "pools/plan/a_test.go", "package plan\nimport (\"os\"; \"time\")\nfunc f() { _, _ = os.Args, time.Now() }", ""},
		{"no package comment", "pools/a.go", "package pools", "0 package comments"},
		{"sleep in a test", "pools/a_test.go", "package pools\nimport \"time\"\nfunc f() { time.Sleep(1) }", "time.Sleep"},
		{"subscription", "pools/a.go", "// Package pools is.\npackage pools\nfunc f(c conn) { c.ChanSubscribe(\"a\", nil) }", "ChanSubscribe subscribes to NATS"},
		{"subscription as a value", "pools/a.go", "// Package pools is.\npackage pools\nfunc f(c conn) any { return c.Subscribe }", "Subscribe subscribes to NATS"},
		{"subscription of the bus", "internal/platform/bus/a.go", "// Package bus is.\npackage bus\nfunc f(c conn) { c.ChanSubscribe(\"a\", nil) }", ""},
		{"subscription of a test", "pools/a_test.go", "package pools\nfunc f(c conn) { c.Subscribe(\"a\", nil) }", ""},
		{"consumer", "pools/a.go", "// Package pools is.\npackage pools\nfunc f(js streams) { js.KeyValue(\"a\") }", "KeyValue needs a consumer"},
		{"init", "pools/a.go", "// Package pools is.\npackage pools\nfunc init() {}", "init: wiring"},
		{"method init", "pools/a.go", "// Package pools is.\npackage pools\ntype t int\nfunc (t) init() {}", ""},
		{"state", "pools/a.go", "// Package pools is.\npackage pools\nimport \"sync\"\nvar mu sync.Mutex", "var mu"},
		{"hook", "pools/a.go", "// Package pools is.\npackage pools\nimport \"time\"\nvar now = time.Now", "var now"},
		{"pointer", "pools/a.go", "// Package pools is.\npackage pools\nvar p = &struct{}{}", "var p"},
		{"sentinel, table, assertion", "pools/a.go", "// Package pools is.\npackage pools\nimport \"errors\"\nvar ErrX = errors.New(\"x\")\nvar table = [...]int{1}\nvar _ error = nil", ""},
		{"embedded", "pools/a.go", "// Package pools is.\npackage pools\nimport _ \"embed\"\n\n//go:embed a.txt\nvar text string", ""},
		{"generated", "proto/signal/v1/a.pb.go", "// Code generated by protoc-gen-go. DO NOT EDIT.\n\npackage v1\nvar state int\nfunc init() {}", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			problems, err := check(fstest.MapFS{test.file: {Data: []byte(test.text)}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if test.want == "" && len(problems) > 0 {
				t.Errorf("problems %q, want none", problems)
			}
			if test.want != "" && (len(problems) != 1 || !strings.Contains(problems[0], test.want)) {
				t.Errorf("problems %q, want one with %q", problems, test.want)
			}
		})
	}
}

func TestTwoPackageComments(t *testing.T) {
	problems, err := check(fstest.MapFS{
		"pools/a.go": {Data: []byte("// Package pools is.\npackage pools")},
		"pools/b.go": {Data: []byte("// Package pools is too.\npackage pools")},
	}, nil)
	if err != nil || len(problems) != 1 || !strings.Contains(problems[0], "pools has 2 package comments, want one: pools/a.go:2, pools/b.go:2") {
		t.Errorf("problems %q, %v, want one about two comments", problems, err)
	}
}

func TestOtherModulesAndTestdataAreNotRead(t *testing.T) {
	bad := &fstest.MapFile{Data: []byte("not go")}
	problems, err := check(fstest.MapFS{
		"examples/own/go.mod": bad, "examples/own/a.go": bad, "pools/testdata/a.go": bad, ".git/a.go": bad, "pools/_a.go": bad,
	}, nil)
	if err != nil || problems != nil {
		t.Errorf("problems %q, %v, want none", problems, err)
	}
}

// Each bound has a tree that exceeds it, and one that just fits.
func TestBounds(t *testing.T) {
	tests := []struct {
		name       string
		methods    int // of the type pools.T
		files      int // with these methods
		exceptions map[string]size
		want       string // part of the only problem; empty: no problem
	}{
		{"at the bounds", 40, 5, nil, ""},
		{"methods", 41, 5, nil, "type pools.T has 41 methods in 5 files, the bound is 40 methods in 5 files"},
		{"files of a type", 6, 6, nil, "type pools.T has 6 methods in 6 files"},
		{"exception", 41, 5, map[string]size{"pools.T": {41, 5}}, ""},
		{"exception that grows", 42, 5, map[string]size{"pools.T": {41, 5}}, "never raise it"},
		{"exception that shrinks", 41, 4, map[string]size{"pools.T": {41, 5}}, "lower the exception"},
		{"exception that is over", 40, 5, map[string]size{"pools.T": {40, 5}}, "within the bound"},
		{"exception without a type", 1, 1, map[string]size{"pools.U": {41, 5}}, "pools.U does not exist"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			texts := make([]string, test.files)
			for i := range texts {
				texts[i] = "package pools\n"
			}
			texts[0] = "// Package pools is.\npackage pools\ntype T[K any] struct{}\n"
			receivers := []string{"T[K]", "*T[K]"}
			for i := range test.methods {
				texts[i%test.files] += fmt.Sprintf("func (t %s) m%d() {}\n", receivers[i%2], i)
			}
			tree := fstest.MapFS{
				"pools/a_test.go":  {Data: []byte("package pools\nfunc (t *T[K]) inATest() {}")},
				"pools/made.pb.go": {Data: []byte("// Code generated by hand. DO NOT EDIT.\n\npackage pools\nfunc (t *T[K]) generated() {}")},
			}
			for i, text := range texts {
				tree[fmt.Sprintf("pools/f%d.go", i)] = &fstest.MapFile{Data: []byte(text)}
			}
			problems, err := check(tree, test.exceptions)
			if err != nil {
				t.Fatal(err)
			}
			if test.want == "" && len(problems) > 0 {
				t.Errorf("problems %q, want none", problems)
			}
			if test.want != "" && (len(problems) != 1 || !strings.Contains(problems[0], test.want)) {
				t.Errorf("problems %q, want one with %q", problems, test.want)
			}
		})
	}
}

// Each room exists, each name in the table is a folder or covers one, and limits name packages of the house.
func TestTable(t *testing.T) {
	tree := os.DirFS(filepath.Join("..", ".."))
	sources, err := read(tree)
	if err != nil {
		t.Fatal(err)
	}
	all := dirs(sources)
	covered := func(pattern string) bool {
		return slices.ContainsFunc(all, func(dir string) bool { return covers(pattern, dir) })
	}
	for _, r := range house {
		for f, names := range r.floors {
			for name := range strings.FieldsSeq(names) {
				if !covered(path.Join(r.path, name)) {
					t.Errorf("room %s, floor %v: there is no package %s", r.path, f, name)
				}
			}
		}
	}
	patterns := slices.Clone(pure)
	for _, l := range limits {
		patterns = slices.Concat(patterns, l.from, l.only, l.to, l.by)
	}
	for _, p := range patterns {
		if !covered(p) {
			t.Errorf("a list of the table names %s, and there is no such package", p)
		}
	}
}
