package series

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"
)

// The bounds of a ring.
const (
	maxTracks  = 512
	maxSpans   = 2048
	maxChanges = 1024
)

// Ring keeps the last ticks of a pool. It has one owner, for reads too: they keep the columns of the last window. Each track has one value for each tick, NaN if it is unknown:
// len(tracks[k]) = len(at) for all k.
type Ring struct {
	size    int
	every   time.Duration
	at      []int64 // ms, rising
	gap     []bool
	tracks  map[Key][]float32
	open    []Span // hold at the last tick
	closed  []Span // in order of their end
	changes []Change
	columns tickColumns // of the last window
}

// NewRing returns a ring for that many ticks.
func NewRing(size int) *Ring { return &Ring{size: max(size, 1), tracks: map[Key][]float32{}} }

// Add appends a tick. It ignores a tick that is not newer than the last one, and reports whether it was added.
func (r *Ring) Add(t Tick) bool {
	at := t.At.UnixMilli()
	if n := len(r.at); n > 0 && at <= r.at[n-1] {
		return false
	}
	r.trim()
	r.at, r.gap = append(r.at, at), append(r.gap, t.Gap)
	if t.Every > 0 {
		r.every = t.Every
	}
	for key, track := range r.tracks {
		r.tracks[key] = append(track, float32(math.NaN()))
	}
	for _, v := range t.Values {
		r.Mark(v)
	}
	r.note(t)
	if t.Change != nil {
		r.changes = append(r.changes, *t.Change)
	}
	return true
}

// unknown returns a track without a value.
func unknown(n int) []float32 {
	track := make([]float32, n, n+n/4+16)
	for i := range track {
		track[i] = float32(math.NaN())
	}
	return track
}

// trim drops the oldest ticks when a quarter more than the size is there, and tracks without a value.
func (r *Ring) trim() {
	if cut := len(r.at) - r.size; cut > r.size/4 {
		r.at, r.gap = slices.Delete(r.at, 0, cut), slices.Delete(r.gap, 0, cut)
		for key, track := range r.tracks {
			track = slices.Delete(track, 0, cut)
			r.tracks[key] = track
			if !slices.ContainsFunc(track, func(x float32) bool { return x == x }) {
				delete(r.tracks, key)
			}
		}
		oldest := time.UnixMilli(r.at[0])
		r.closed = slices.DeleteFunc(r.closed, func(s Span) bool { return s.To.Before(oldest) })
		r.changes = slices.DeleteFunc(r.changes, func(c Change) bool { return c.At.Before(oldest) })
	}
	if cut := len(r.changes) - maxChanges; cut > maxChanges/4 {
		r.changes = slices.Delete(r.changes, 0, cut)
	}
}

// note extends the open spans by the notes of a tick, opens new ones, and closes the others.
func (r *Ring) note(t Tick) {
	held := make([]bool, len(t.Notes))
	still := r.open[:0]
	for _, s := range r.open {
		j := slices.IndexFunc(t.Notes, func(n Note) bool { return n.Kind == s.Kind && n.Name == s.Name && sameRelease(n, s.Note) })
		if j < 0 && t.Gap && s.Kind.ofDecision() {
			still = append(still, s) // the tick does not show whether it still holds
			continue
		}
		if j >= 0 {
			s.Note, s.To, held[j] = t.Notes[j], t.At, true
			still = append(still, s)
			continue
		}
		s.Open = false
		r.closed = append(r.closed, s)
	}
	r.open = still
	for j, n := range t.Notes {
		if !held[j] && len(r.open) < maxSpans {
			r.open = append(r.open, Span{Note: n, From: t.At, To: t.At, Open: true})
		}
	}
	if cut := len(r.closed) - maxSpans; cut > maxSpans/4 {
		r.closed = slices.Delete(r.closed, 0, cut)
	}
}

// Mark sets a value of the last tick.
func (r *Ring) Mark(v Value) {
	n := len(r.at)
	track, ok := r.tracks[v.Key]
	if n == 0 || !ok && len(r.tracks) >= maxTracks {
		return
	}
	if !ok {
		track = unknown(n)
		r.tracks[v.Key] = track
	}
	track[n-1] = float32(v.X)
}

// sameRelease reports whether two notes are of one release. Other notes may change their text.
func sameRelease(a, b Note) bool { return a.Kind != Version && a.Kind != Shadow || a.Text == b.Text }

// Len returns the number of ticks.
func (r *Ring) Len() int { return len(r.at) }

// Every returns the period of the ticks; 0 if it is unknown.
func (r *Ring) Every() time.Duration { return r.every }

// First and Last return the times of the first and of the last tick; zero without ticks.
func (r *Ring) First() time.Time { return r.time(0) }

// Last returns the time of the last tick.
func (r *Ring) Last() time.Time { return r.time(len(r.at) - 1) }

func (r *Ring) time(i int) time.Time {
	if i < 0 || i >= len(r.at) {
		return time.Time{}
	}
	return time.UnixMilli(r.at[i]).UTC()
}

// Keys returns the tracks of a quantity, in order of name and kind.
func (r *Ring) Keys(q Quantity) (out []Key) {
	for key := range r.tracks {
		if key.Quantity == q {
			out = append(out, key)
		}
	}
	slices.SortFunc(out, func(a, b Key) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind)) })
	return out
}

// Latest returns the value at the last tick.
func (r *Ring) Latest(key Key) (float64, bool) { return r.value(key, len(r.at)-1) }

// At returns the value of the last tick at that time or earlier, if it is not a gap.
func (r *Ring) At(key Key, at time.Time) (float64, bool) { return r.value(key, r.before(at)) }

// Known returns the last known value at that time or earlier.
func (r *Ring) Known(key Key, at time.Time) (float64, bool) {
	for i := r.before(at); i >= 0; i-- {
		if x, ok := r.value(key, i); ok {
			return x, true
		}
	}
	return 0, false
}

func (r *Ring) value(key Key, i int) (float64, bool) {
	track := r.tracks[key]
	if i < 0 || i >= len(track) || track[i] != track[i] {
		return 0, false
	}
	return round(float64(track[i])), true
}

// before returns the index of the last tick at that time or earlier; -1 without one.
func (r *Ring) before(at time.Time) int {
	ms := at.UnixMilli()
	return sort.Search(len(r.at), func(i int) bool { return r.at[i] > ms }) - 1
}

// Around returns the times of the ticks before and after a tick; zero without one.
func (r *Ring) Around(at time.Time) (before, after time.Time) {
	i := r.before(at)
	if i >= 0 && r.at[i] == at.UnixMilli() {
		return r.time(i - 1), r.time(i + 1)
	}
	return r.time(i), r.time(i + 1)
}

// Spans returns the spans of a kind that touch the time from..to, in order of From.
func (r *Ring) Spans(kind NoteKind, from, to time.Time) (out []Span) {
	for _, list := range [][]Span{r.closed, r.open} {
		for i := range list {
			if s := &list[i]; s.Kind == kind && !s.To.Before(from) && !s.From.After(to) {
				out = append(out, *s)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Span) int { return a.From.Compare(b.From) })
	return out
}

// Changes returns the changes of the target in the time from..to, newest first.
func (r *Ring) Changes(from, to time.Time) (out []Change) {
	for _, c := range slices.Backward(r.changes) {
		if !c.At.Before(from) && !c.At.After(to) {
			out = append(out, c)
		}
	}
	return out
}

// round drops what float32 adds: 60.188621520996094 -> 60.189.
func round(x float64) float64 { return math.Round(x*1000) / 1000 }
