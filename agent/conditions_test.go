package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/jsonfault"
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
		if usable, err := wire.Conditions(got, 3); err != nil || !cmp.Equal(usable, got) {
			t.Errorf("%s: %+v, %v: the condition is invalid", test.name, usable, err)
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
		name, data string
		want       string // the types: "!" after a failed one, "?" after an unknown one
		problem    string
	}{
		{"nothing failed", `[{"type":"KernelDeadlock","failed":false}]`, "KernelDeadlock", ""},
		{"none", `[]`, "", ""},
		{"as many as may be", encode(many[1:]), "T1 T2 T3 T4 T5 T6 T7 T8 T9 T10", ""},
		{"failed", `[{"type":"KernelDeadlock","failed":true,"why":"task hung for 120 s"}]`, "KernelDeadlock!", ""},
		{"unknown keys", `[{"type":"KernelDeadlock","failed":true,"since":"2026-11-27T20:00:00Z","labels":{"a":[1]}}]`, "KernelDeadlock!", ""},
		{"one too many", encode(many), "T0 T1 T2 T3 T4 T5 T6 T7 T8 T9", "at most"},
		{"empty", ``, "", "unexpected end"},
		{"half", `[{"type":"Ker`, "", "unexpected end"},
		{"null", `null`, "", "want a list"},
		{"an object", `{"type":"X"}`, "", "want a list, not an object"},
		{"more", `[] []`, "", "after top-level value"},
		{"huge", strings.Repeat(" ", maxConditionsFile) + "[]", "", "want at most"},
		{"no result", `[{"type":"X"},{"type":"Y","failed":true}]`, "X? Y!", ""},
		{"result null", `[{"type":"X","failed":null},{"type":"Y","failed":true}]`, "X? Y!", ""},
		{"result of another type", `[{"type":"X","failed":"true"},{"type":"Y","failed":true}]`, "X? Y!", ""},
		{"no type", `[{"failed":true},{"type":"Y","failed":true}]`, "Y!", "want 1 to"},
		{"type null", `[{"type":null,"failed":true},{"type":"Y","failed":true}]`, "Y!", "want 1 to"},
		{"type of another type", `[{"type":7,"failed":true},{"type":"Y","failed":true}]`, "Y!", "want 1 to"},
		{"long type", `[{"type":"` + strings.Repeat("x", 65) + `","failed":true},{"type":"Y","failed":true}]`, "Y!", "want 1 to"},
		{"type of two lines", `[{"type":"a\nb","failed":true},{"type":"Y","failed":true}]`, "Y!", "want 1 to"},
		{"not an object", `[7,null,{"type":"Y","failed":true}]`, "Y!", "want 1 to"},
		{"long why", `[{"type":"X","failed":true,"why":"` + strings.Repeat("x", 257) + `"}]`, "X!", ""},
		{"why of another type", `[{"type":"X","failed":true,"why":{}}]`, "X!", ""},
		{"twice", `[{"type":"X","failed":true},{"type":"X","failed":true}]`, "X!", ""},
		{"twice, with another result", `[{"type":"X","failed":true},{"type":"X","failed":false},{"type":"Y","failed":true}]`, "X?! Y!", ""},
		{"ours", `[{"type":"DiskFull","failed":true},{"type":"Y","failed":true}]`, "Y!", "reserved for the agent"},
		{"within its period", `[{"type":"X","failed":true,"period":60}]`, "X!", ""},
		{"older than its period", `[{"type":"X","failed":true,"period":59},{"type":"Y","failed":true}]`, "X?! Y!", ""},
		{"period of another type", `[{"type":"X","failed":true,"period":"1m"}]`, "X?!", ""},
		{"negative period", `[{"type":"X","failed":true,"period":-60}]`, "X?!", ""},
	} {
		list, err := decodeConditions([]byte(test.data), time.Minute)
		if (err == nil) != (test.problem == "") || err != nil && !strings.Contains(err.Error(), test.problem) {
			t.Errorf("%s: %v, want %q", test.name, err, test.problem)
		}
		if got := marked(list); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
		if whole := err != nil && !errors.Is(err, errPart); whole && list != nil {
			t.Errorf("%s: %v with %q", test.name, err, marked(list))
		}
	}
}

// marked returns the types: "?" after an unknown one, "!" after a failed one.
func marked(list []api.NodeCondition) string {
	var out []string
	for _, c := range list {
		name := c.Type
		if c.Unknown {
			name += "?"
		}
		if c.Failed {
			name += "!"
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
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
		got := slices.DeleteFunc(c.conditions(now), func(c api.NodeCondition) bool { return !c.Failed && !c.Unknown })
		if marked(got) != want {
			t.Errorf("%s: %+v, want %q", what, got, want)
		}
	}
	c.look(now, true)
	expect("a good machine", "")
	write(`[{"type":"KernelDeadlock","failed":true,"why":"hung"}]`)
	c.look(now, false)
	expect("a detector reports", "KernelDeadlock!")
	write(`[{"type":"Kern`)
	c.look(now, false)
	expect("it is just writing", "KernelDeadlock!")
	c.look(now, false)
	expect("it does not write on", "ConditionsFile? KernelDeadlock?!")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	c.look(now, false)
	expect("a pipe, without waiting", "ConditionsFile? KernelDeadlock?!")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(`[{"type":"KernelDeadlock","failed":"maybe"},{"type":"Clock","failed":false}]`)
	c.look(now, false)
	expect("one result is unreadable", "KernelDeadlock?!")
	write(`[{"type":"KernelDeadlock","failed":false},{"failed":true}]`)
	c.look(now, false)
	c.look(now, false)
	expect("one type is unreadable", "ConditionsFile? Clock?")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	c.look(now, false)
	expect("no detector any more", "")

	c.began = now
	now = now.Add(hungAfter)
	expect("a check that does not end", "DiskError!")
	if got := c.conditions(now); len(got) != 4 || got[2].Why == "" {
		t.Errorf("the reason is missing: %+v", got)
	}
}

func FuzzDecodeConditions(f *testing.F) {
	f.Add([]byte(`[{"type":"KernelDeadlock","failed":true,"why":"hung"}]`))
	f.Add([]byte(`[{"type":"a"},{"type":"a"}]`))
	f.Add([]byte(`[null]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := decodeConditions(data, time.Minute)
		if err != nil && !errors.Is(err, errPart) {
			return
		}
		m := newMachine(Config{ID: "n", Fenced: true}, "boot")
		full := append(diskConditions(nil), api.NodeCondition{Type: conditionFile})
		list = append(list, listedAll(1, 1000)...)
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

// A fault in a condition of the detectors' file makes that condition unknown, with its last result. If the condition or the
// file has no readable type, those that were known before are unknown. The other conditions count.
func TestFaultsOfTheConditionsFile(t *testing.T) {
	const good = `[{"type":"A","failed":true,"unknown":false,"why":"a","period":3600},{"type":"B","failed":true,"unknown":false,"why":"b","period":3600},` +
		`{"type":"C","failed":false,"unknown":false,"why":"c","period":3600}]`
	if lacks := jsonfault.Lacks[struct {
		List []api.NodeCondition `json:"list"`
	}](`{"list":` + good + `}`); lacks != nil {
		t.Errorf("the file lacks %q", lacks)
	}
	rules := jsonfault.Rules{Optional: "unknown why period", Free: "why", Except: []jsonfault.Except{
		{Field: "why", Faults: []jsonfault.Fault{jsonfault.Type}, Usable: true, Why: "a text for people decides nothing"},
		{Field: "period", Faults: []jsonfault.Fault{jsonfault.Huge}, Values: "1e300 9000000000000000000 99999999999999999999", Usable: true, Why: "a condition for ever"},
	}}
	cases := jsonfault.Under("[1]", jsonfault.Cases(good))
	for _, c := range cases {
		checker := newChecker(Config{DataDir: t.TempDir(), Heartbeat: time.Second})
		now, read := time.Now(), ""
		for i, text := range []string{good, c.Text, c.Text} {
			if err := os.WriteFile(filepath.Join(checker.folder, conditionsFile), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			checker.look(now, i == 0)
			facts := newMachine(Config{ID: "n", Pool: "p"}, "b").facts(now, checker.conditions(now))
			sent, err := json.Marshal(facts)
			if err != nil {
				t.Fatal(err)
			}
			received, err := wire.DecodeFacts(sent)
			if err != nil {
				t.Fatalf("%v: %v", c, err)
			}
			read = marked(received.Conditions[3:])
		}
		want := "ConditionsFile A! B! C"
		switch {
		case c.Fault == jsonfault.NotJSON: // nothing of the file is readable
			want = "ConditionsFile? A?! B?! C?"
		case rules.Usable("[1]", c):
		case c.Path == "[1]", c.Path == "[1].type":
			want = "ConditionsFile? A! C B?!"
		default:
			want = "ConditionsFile A! B?! C"
		}
		if read != want {
			t.Errorf("%v: %q, want %q", c, read, want)
		}
	}
	t.Logf("%d faulty files", len(cases))
}
