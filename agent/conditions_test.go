package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
)

// failed returns the types of the conditions that have failed.
func failed(list []api.NodeCondition) string {
	var out []string
	for _, c := range list {
		if c.Failed {
			out = append(out, c.Type)
		}
	}
	return strings.Join(out, " ")
}

func TestDiskConditions(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"well", nil, ""},
		{"read-only", &os.PathError{Op: "open", Path: "/x", Err: syscall.EROFS}, "ReadonlyFilesystem"},
		{"no space", fmt.Errorf("write: %w", syscall.ENOSPC), "DiskFull"},
		{"no quota", syscall.EDQUOT, "DiskFull"},
		{"i/o error", syscall.EIO, "DiskError"},
		{"unexpected", errors.New("a\nline " + strings.Repeat("é", 300)), "DiskError"},
		{"does not end", errHung, "DiskError"},
	} {
		got := diskConditions(test.err)
		if failed(got) != test.want || len(got) != 3 {
			t.Errorf("%s: %+v, want %q failed", test.name, got, test.want)
		}
		if err := wire.CheckConditions(got, 3); err != nil {
			t.Errorf("%s: the condition is invalid: %v", test.name, err)
		}
	}
}

func TestCheckDisk(t *testing.T) {
	folder := t.TempDir()
	if err := checkDisk(filepath.Join(folder, "new")); err != nil {
		t.Errorf("a good disk: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(folder, "new")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := probe("/dev/full"); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full device: %v", err)
	}
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkDisk(file); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("no folder: %v", err)
	}
}

func TestCheckSpace(t *testing.T) {
	for _, test := range []struct {
		free, blocks uint64
		full         bool
	}{{0, 0, false}, {0, 99, false}, {9, 1000, true}, {10, 1000, false}, {1000, 1000, false}} {
		if err := checkSpace(test.free, test.blocks); errors.Is(err, syscall.ENOSPC) != test.full {
			t.Errorf("checkSpace(%d, %d) = %v, want full %v", test.free, test.blocks, err, test.full)
		}
	}
}

func TestDecodeConditions(t *testing.T) {
	many := make([]api.NodeCondition, maxDetected()+1)
	for i := range many {
		many[i].Type = fmt.Sprint("T", i)
	}
	encode := func(list []api.NodeCondition) string {
		data, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, test := range []struct {
		name, data, want string
	}{
		{"nothing failed", `[{"type":"KernelDeadlock","failed":false}]`, ""},
		{"none", `[]`, ""},
		{"as many as may be", encode(many[1:]), ""},
		{"failed", `[{"type":"KernelDeadlock","failed":true,"why":"task hung for 120 s"}]`, ""},
		{"one too many", encode(many), "at most"},
		{"empty", ``, "found nothing"},
		{"half", `[{"type":"Ker`, "unexpected EOF"},
		{"an object", `{"type":"X"}`, "want a list, not an object"},
		{"unknown key", `[{"type":"X","since":3}]`, "unknown field"},
		{"more", `[] []`, "something follows"},
		{"no type", `[{"failed":true}]`, "want a type"},
		{"long type", `[{"type":"` + strings.Repeat("x", 65) + `"}]`, "want a type"},
		{"type of two lines", `[{"type":"a\nb"}]`, "want a type"},
		{"long why", `[{"type":"X","why":"` + strings.Repeat("x", 257) + `"}]`, "why"},
		{"twice", `[{"type":"X"},{"type":"X"}]`, "twice"},
		{"ours", `[{"type":"DiskFull"}]`, "reserved for the agent"},
		{"huge", strings.Repeat(" ", maxConditionsFile) + "[]", "want at most"},
	} {
		_, err := decodeConditions([]byte(test.data))
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

func TestChecker(t *testing.T) {
	c := newChecker(Config{DataDir: t.TempDir(), Heartbeat: time.Second})
	now := time.Unix(1000, 0)
	if got := c.conditions(now); got != nil {
		t.Errorf("before the first check: %+v", got)
	}
	path := filepath.Join(c.folder, conditionsFile)
	write := func(data string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what, want string) {
		t.Helper()
		if got := c.conditions(now); failed(got) != want {
			t.Errorf("%s: %+v, want %q failed", what, got, want)
		}
	}
	c.look(now, true)
	expect("a good machine", "")
	write(`[{"type":"KernelDeadlock","failed":true,"why":"hung"}]`)
	c.look(now, false)
	expect("a detector reports", "KernelDeadlock")
	write(`[{"type":"Kern`)
	c.look(now, false)
	expect("it is just writing", "KernelDeadlock")
	c.look(now, false)
	expect("it does not write on", "ConditionsFile KernelDeadlock")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	c.look(now, false)
	expect("a pipe, without waiting", "ConditionsFile KernelDeadlock")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	c.look(now, false)
	expect("no detector any more", "")

	c.began = now
	now = now.Add(hungAfter)
	expect("a check that does not end", "DiskError")
	if got := c.conditions(now); len(got) != 4 || got[2].Why == "" {
		t.Errorf("the reason is missing: %+v", got)
	}
}

func FuzzDecodeConditions(f *testing.F) {
	f.Add([]byte(`[{"type":"KernelDeadlock","failed":true,"why":"hung"}]`))
	f.Add([]byte(`[{"type":"a"},{"type":"a"}]`))
	f.Add([]byte(`[null]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := decodeConditions(data)
		if err != nil {
			return
		}
		m := newMachine(Config{ID: "n", Fenced: true}, "boot")
		full := append(diskConditions(nil), api.NodeCondition{Type: conditionFile})
		facts := m.facts(time.Unix(1, 0), append(full, list...))
		out, err := json.Marshal(facts)
		if err != nil {
			t.Fatal(err)
		}
		got, err := wire.DecodeFacts(out)
		if err != nil {
			t.Fatalf("the facts with %q are rejected: %v", data, err)
		}
		if diff := cmp.Diff(facts.Conditions, got.Conditions); diff != "" {
			t.Errorf("conditions, -sent +received:\n%s", diff)
		}
	})
}
