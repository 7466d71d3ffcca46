package state

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
)

// remnant is one stored index or stop of an app. until is its last crash, its restart or its nudge's end, whichever
// is latest.
type remnant struct {
	app   string
	place int // in the app's list; stops come after all indices
	until time.Time
}

// thinMemories keeps the entries that end last.
func thinMemories(entries map[string]json.RawMessage, share float64) (int, error) {
	memories := make(map[string]apps.Memory, len(entries))
	var remnants []remnant
	for app, value := range entries {
		var m apps.Memory
		if err := json.Unmarshal(value, &m); err != nil {
			return 0, fmt.Errorf("app %.80q: %w", app, err)
		}
		memories[app] = m
		remnants = appendRemnants(remnants, m)
	}
	slices.SortFunc(remnants, func(a, b remnant) int {
		return cmp.Or(b.until.Compare(a.until), cmp.Compare(a.app, b.app), cmp.Compare(a.place, b.place))
	})
	keep := fewer(len(remnants), share)
	places := make(map[string][]int, len(entries)) // to keep
	for _, l := range remnants[:keep] {
		places[l.app] = append(places[l.app], l.place)
	}
	for app, m := range memories {
		m = pick(m, places[app])
		if m.Empty() {
			delete(entries, app)
			continue
		}
		value, err := json.Marshal(m)
		if err != nil {
			return 0, fmt.Errorf("app %.80q: %w", app, err)
		}
		entries[app] = value
	}
	return len(remnants) - keep, nil
}

// fewer returns less than that share of n.
func fewer(n int, share float64) int { return max(0, min(int(share*float64(n)), n-1)) }

func appendRemnants(remnants []remnant, m apps.Memory) []remnant {
	for i, x := range m.Indices {
		until := x.CrashedAt
		for _, later := range [...]time.Time{x.Restart, x.Pending} {
			if later.After(until) {
				until = later
			}
		}
		remnants = append(remnants, remnant{m.App, i, until})
	}
	for i, x := range m.Stops {
		remnants = append(remnants, remnant{m.App, len(m.Indices) + i, x.Pending})
	}
	return remnants
}

// pick returns the memory with only the entries at these places. It keeps what does not end by itself.
func pick(m apps.Memory, places []int) apps.Memory {
	slices.Sort(places)
	out := m
	out.Indices, out.Stops = nil, nil
	for _, p := range places {
		if p < len(m.Indices) {
			out.Indices = append(out.Indices, m.Indices[p])
		} else {
			out.Stops = append(out.Stops, m.Stops[p-len(m.Indices)])
		}
	}
	return out
}

// thinCensus keeps the nodes with the most copies.
func thinCensus(entries map[string]json.RawMessage, share float64) (int, error) {
	nodes := slices.SortedFunc(maps.Keys(entries), func(a, b string) int {
		return cmp.Or(cmp.Compare(number(entries[b]), number(entries[a])), cmp.Compare(a, b))
	})
	keep := fewer(len(nodes), share)
	for _, node := range nodes[keep:] {
		delete(entries, node)
	}
	return len(nodes) - keep, nil
}

// number decodes a value of encodeCensus.
func number(value []byte) int {
	n, _ := strconv.Atoi(string(value)) // 0 if it is not a number
	return n
}
