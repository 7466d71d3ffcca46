package replay

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the expected output of the scenarios, and SCENARIOS.md")

const folder = "testdata/scenarios"

// TestScenarios replays every scenario of the table. Its output must equal the file NAME.out,
// and satisfy the hand-written rules in the table. If ORACLE_DIR is set, the inputs are read
// from that folder.
func TestScenarios(t *testing.T) {
	var page strings.Builder
	page.WriteString(pageHead)
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			out := s.run(t)
			golden(t, filepath.Join(folder, s.name+".out"), out)
			ours := summarize(t, out)
			s.check(t, ours)
			page.WriteString(s.pageRow(t, ours))
		})
	}
	golden(t, "testdata/SCENARIOS.md", []byte(page.String()))
}

// TestEveryScenarioIsInTheTable checks that no file is unused.
func TestEveryScenarioIsInTheTable(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var have, want []string
	for _, f := range files {
		have = append(have, strings.TrimSuffix(filepath.Base(f), ".jsonl"))
	}
	for _, s := range scenarios {
		want = append(want, s.name)
	}
	slices.Sort(want)
	if !gocmp.Equal(have, want) {
		t.Errorf("files and table differ:\n%s", gocmp.Diff(want, have))
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("output differs from %s (-update writes it):\n%s", path, diff)
	}
}

func (s scenario) run(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(folder, s.name+".jsonl")
	if dir := os.Getenv("ORACLE_DIR"); dir != "" {
		if other := filepath.Join(dir, "harmonizer", s.name+".jsonl"); exists(other) {
			path = other
		}
	}
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var cfg Config
	if s.config != nil {
		s.config(&cfg.Apps)
	}
	var out bytes.Buffer
	if err := Run(t.Context(), in, &out, cfg); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// summary has the times of each request: "START A/0", "RESTART A/0" for a flapping index,
// "STOP A i0", "ANSWER R".
type summary map[string][]int64

// wire is a published message of either dialect, or a dump.
type wire struct {
	T       int64
	Subject string          `json:"subj"`
	Message json.RawMessage `json:"msg"`
}

func summarize(t *testing.T, out []byte) summary {
	t.Helper()
	s := summary{}
	for line := range bytes.Lines(out) {
		var w wire
		if err := json.Unmarshal(line, &w); err != nil {
			t.Fatal(err)
		}
		for _, what := range w.things(t) {
			s[what] = append(s[what], w.T)
		}
	}
	return s
}

func (w wire) things(t *testing.T) (things []string) {
	t.Helper()
	var m struct {
		App       string          `json:"droplet"`
		Op        string          `json:"op"`
		Indices   []int           `json:"indices"`
		Instances json.RawMessage `json:"instances"`
		Flapping  bool            `json:"flapping"`
	}
	nudge := w.Subject == "health.start" || w.Subject == "health.stop" || strings.HasPrefix(w.Subject, "cloudcontrollers.")
	switch {
	case w.Subject == "":
		return nil
	case !nudge:
		return []string{"ANSWER " + w.Subject}
	}
	if err := json.Unmarshal(w.Message, &m); err != nil {
		t.Fatal(err)
	}
	op := "START"
	if m.Flapping {
		op = "RESTART"
	}
	for _, i := range m.Indices {
		things = append(things, fmt.Sprintf("%s %s/%d", op, m.App, i))
	}
	for _, id := range ids(m.Instances) {
		things = append(things, fmt.Sprintf("STOP %s %s", m.App, id))
	}
	return things
}

// ids decodes the instances of a stop: the keys of an object, or a list.
func ids(raw json.RawMessage) []string {
	byID := map[string]string{}
	if json.Unmarshal(raw, &byID) == nil {
		return slices.Sorted(maps.Keys(byID))
	}
	var list []string
	_ = json.Unmarshal(raw, &list) // no instances: a start
	return list
}

// check compares our output with the rules and with the originals.
func (s scenario) check(t *testing.T, ours summary) {
	t.Helper()
	for what, times := range ours {
		windows, ok := s.windows(t)[what]
		if !ok {
			t.Errorf("%s at %v: no rule asks for it", what, times)
			continue
		}
		if len(times) != len(windows) {
			t.Errorf("%s at %v, want one in each of %v", what, times, windows)
			continue
		}
		for i, w := range windows {
			if times[i] < w[0] || times[i] > w[1] {
				t.Errorf("%s at %d, want it in %v", what, times[i], w)
			}
		}
	}
	for what, windows := range s.windows(t) {
		if _, ok := ours[what]; !ok {
			t.Errorf("%s never, want it in %v", what, windows)
		}
	}
	s.checkReason(t, ours)
}

func (s scenario) checkReason(t *testing.T, ours summary) {
	t.Helper()
	e1, e2 := s.original(t, "e1"), s.original(t, "e2")
	if e1 == nil || e2 == nil || s.why != "" {
		return
	}
	if kinds := ours.kinds(); !gocmp.Equal(kinds, e1.kinds()) && !gocmp.Equal(kinds, e2.kinds()) {
		t.Errorf("ours asks for %v, the originals for %v and %v, and the table gives no reason", kinds, e1.kinds(), e2.kinds())
	}
}

// original is the output of an original health manager; nil: not recorded.
func (s scenario) original(t *testing.T, era string) summary {
	t.Helper()
	out, err := os.ReadFile(filepath.Join(folder, s.name+"."+era+".out"))
	if err != nil {
		return nil
	}
	return summarize(t, out)
}

// kinds returns what was requested, without the times.
func (s summary) kinds() []string { return slices.Sorted(maps.Keys(s)) }

// windows parses want: for each request, the allowed windows of time. "31-32 x3" means 31-32
// and two repeats, each 30 to 31 s after the one before. A repeat follows the keep-alive, on a
// clock of whole seconds.
func (s scenario) windows(t *testing.T) map[string][][2]int64 {
	t.Helper()
	out := map[string][][2]int64{}
	for _, line := range s.want {
		what, times, ok := strings.Cut(line, " @ ")
		if !ok {
			t.Fatalf("want has the line %q", line)
		}
		for _, what := range each(t, what) {
			out[what] = windows(t, times)
		}
	}
	return out
}

// each expands "START A/0..3".
func each(t *testing.T, what string) (all []string) {
	t.Helper()
	app, numbers, _ := strings.Cut(what, "/")
	from, to, ok := strings.Cut(numbers, "..")
	if !ok {
		return []string{what}
	}
	for i := number(t, from); i <= number(t, to); i++ {
		all = append(all, fmt.Sprintf("%s/%d", app, i))
	}
	return all
}

func windows(t *testing.T, times string) (out [][2]int64) {
	t.Helper()
	for f := range strings.FieldsSeq(times) {
		if n, ok := strings.CutPrefix(f, "x"); ok {
			for first, i := out[len(out)-1], int64(1); i < number(t, n); i++ {
				out = append(out, [2]int64{first[0] + 30*i, first[1] + 31*i})
			}
			continue
		}
		from, to, ok := strings.Cut(f, "-")
		if !ok {
			to = from
		}
		out = append(out, [2]int64{number(t, from), number(t, to)})
	}
	return out
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
