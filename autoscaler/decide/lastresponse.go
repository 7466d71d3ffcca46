package decide

import (
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// memory is the last good response of an app, kind by kind.
type memory struct {
	request resource.Request
	at      [resource.Count]time.Time
}

// recall groups the entries by app. Of two entries for one kind the newer counts, and of two with
// one time the larger. Invalid values are dropped, and later times count as now.
func recall(entries []api.HeldRequest, now time.Time) map[string]memory {
	lastResponses := make(map[string]memory)
	for _, h := range entries {
		if int(h.Kind) >= resource.Count || (resource.Request{}).With(h.Kind, h.Value).Validate() != nil {
			continue
		}
		m := lastResponses[h.App]
		at := earlier(h.At, now)
		x, ok := m.request.Get(h.Kind)
		if age := at.Compare(m.at[h.Kind]); !ok || age > 0 || age == 0 && h.Value > x {
			m.request = m.request.With(h.Kind, h.Value)
			m.at[h.Kind] = at
		}
		lastResponses[h.App] = m
	}
	return lastResponses
}

// since returns the part of m of that time or later.
func (m memory) since(oldest time.Time) memory {
	kept := memory{}
	for _, k := range resource.Kinds() {
		if x, ok := m.request.Get(k); ok && !m.at[k].Before(oldest) {
			kept.request, kept.at[k] = kept.request.With(k, x), m.at[k]
		}
	}
	return kept
}

// learn adds the values of a good response of that time.
func (m *memory) learn(o api.Opinion, at time.Time) {
	for _, k := range resource.Kinds() {
		if x, ok := o.Request.Get(k); ok {
			m.request, m.at[k] = m.request.With(k, x), at
		}
	}
}

func (m memory) empty() bool { return m.request.IsEmpty() }

// fill adds the kinds that r lacks, and returns the added kinds.
func (m memory) fill(r resource.Request) (resource.Request, []resource.Kind) {
	var filled []resource.Kind
	for _, k := range resource.Kinds() {
		if _, named := r.Get(k); named {
			continue
		}
		if x, ok := m.request.Get(k); ok {
			r, filled = r.With(k, x), append(filled, k)
		}
	}
	return r, filled
}

// held returns m as entries, sorted by kind.
func (m memory) held(app string) []api.HeldRequest {
	var entries []api.HeldRequest
	for _, k := range resource.Kinds() {
		if x, ok := m.request.Get(k); ok {
			entries = append(entries, api.HeldRequest{App: app, Kind: k, Value: x, At: m.at[k]})
		}
	}
	return entries
}
