package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const pageHead = `# What each harmonizer does

Written by TestScenarios with -update: for each event file in ` + "`scenarios/`" + ` the requests of each harmonizer, with their seconds.
E1 is the classic Health Manager 2, E2 its last version. In brackets: not recorded, but derived from its rules. A dash: unknown.
RESTART is a start of a flapping index.
Row: in specs/health-manager.md §7; empty for our own scenarios. The first second is 1.

| Scenario | Row | Given | E1 | E2 | Ours | Why it differs |
|---|---|---|---|---|---|---|
`

func (s scenario) pageRow(t *testing.T, ours summary) string {
	t.Helper()
	row, _, _ := strings.Cut(s.name, "_")
	if number(t, row) > 95 {
		row = ""
	} else {
		row = strings.TrimPrefix(row, "0")
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s |\n", s.name, row, s.given,
		s.pageCell(t, "e1", s.e1), s.pageCell(t, "e2", s.e2), ours, s.why)
}

func (s scenario) pageCell(t *testing.T, era, rules string) string {
	t.Helper()
	if rules != "" {
		return "(" + rules + ")"
	}
	return s.original(t, era).String()
}

// String returns the summary as one cell, in order of time. Requests at the same times are
// joined.
func (s summary) String() string {
	if s == nil {
		return "–"
	}
	type group struct{ what, when string }
	byTime := map[string][]string{}
	for what, times := range s {
		key := seconds(times)
		byTime[key] = append(byTime[key], what)
	}
	var groups []group
	for when, what := range byTime {
		groups = append(groups, group{join(what), when})
	}
	slices.SortFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(first(a.when), first(b.when)), cmp.Compare(a.what, b.what))
	})
	var cells []string
	for _, g := range groups {
		cells = append(cells, g.what+": "+g.when)
	}
	return cmp.Or(strings.Join(cells, "; "), "nothing")
}

func first(when string) int {
	n, _ := strconv.Atoi(strings.TrimRight(strings.Fields(when)[0], ","))
	return n
}

// seconds lists times. A long list is shortened to the first three, the number and the last.
func seconds(times []int64) string {
	var words []string
	for i, at := range times {
		if len(times) > 5 && i == 3 {
			words = append(words, fmt.Sprintf("… %d (%d times)", times[len(times)-1], len(times)))
			break
		}
		words = append(words, strconv.FormatInt(at, 10))
	}
	return strings.Join(words, ", ")
}

// join lists things. A long list is shortened to the first and the last.
func join(what []string) string {
	slices.SortFunc(what, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	if len(what) > 4 {
		return fmt.Sprintf("%s … %s (%d)", what[0], what[len(what)-1], len(what))
	}
	return strings.Join(what, ", ")
}
