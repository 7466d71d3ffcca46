package queue

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var start = time.Unix(1000, 0)

// push is one entry; its key names it.
type push struct {
	app      uint32
	key      string
	priority Priority
	front    bool
}

func (p push) to(q *Queue[string]) {
	if p.front {
		q.PushFront(p.app, p.key, p.priority)
	} else {
		q.Push(p.app, p.key, p.priority)
	}
}

func TestOrder(t *testing.T) {
	tests := []struct {
		name   string
		pushes []push
		remove []string
		want   []string
	}{
		{name: "empty"},
		{name: "higher priority first",
			pushes: []push{{1, "low", Low, false}, {1, "high", High, false}, {1, "normal", Normal, false}},
			want:   []string{"high", "normal", "low"}},
		{name: "in order of arrival within an app",
			pushes: []push{{1, "a", Low, false}, {1, "b", Low, false}, {1, "c", Low, false}},
			want:   []string{"a", "b", "c"}},
		{name: "apps take turns",
			pushes: []push{{1, "a0", Low, false}, {1, "a1", Low, false}, {1, "a2", Low, false}, {2, "b0", Low, false}, {3, "c0", Low, false}, {2, "b1", Low, false}},
			want:   []string{"a0", "b0", "c0", "a1", "b1", "a2"}},
		{name: "each level that waits gets one of five pops",
			pushes: []push{
				{1, "l0", Low, false}, {1, "l1", Low, false}, {2, "n0", Normal, false}, {2, "n1", Normal, false}, {3, "h0", High, false},
				{3, "h1", High, false}, {3, "h2", High, false}, {3, "h3", High, false}, {3, "h4", High, false},
			},
			want: []string{"h0", "h1", "h2", "n0", "l0", "h3", "h4", "n1", "l1"}},
		{name: "the highest level that waits gets the rest",
			pushes: []push{{1, "l0", Low, false}, {1, "l1", Low, false}, {2, "n0", Normal, false}, {2, "n1", Normal, false}, {2, "n2", Normal, false},
				{2, "n3", Normal, false}, {2, "n4", Normal, false}},
			want: []string{"n0", "n1", "n2", "n3", "l0", "n4", "l1"}},
		{name: "apps take turns within a priority only",
			pushes: []push{{1, "a0", Low, false}, {2, "b0", Low, false}, {1, "a1", High, false}, {1, "a2", High, false}},
			want:   []string{"a1", "a2", "a0", "b0"}},
		{name: "pushed again it keeps its place",
			pushes: []push{{1, "a", Normal, false}, {1, "b", Normal, false}, {1, "a", Normal, false}, {1, "a", Low, false}},
			want:   []string{"a", "b"}},
		{name: "pushed again with a higher priority it moves up",
			pushes: []push{{1, "a", Normal, false}, {1, "b", Normal, false}, {1, "b", High, false}},
			want:   []string{"b", "a"}},
		{name: "in front of what waits of its app",
			pushes: []push{{1, "a1", Low, false}, {1, "a2", Low, false}, {2, "b0", Low, false}, {1, "a0", Low, true}},
			want:   []string{"a0", "b0", "a1", "a2"}},
		{name: "in front it moves to the front of its priority, or to a higher one",
			pushes: []push{{1, "a", Low, false}, {1, "b", Low, false}, {1, "c", Low, false}, {1, "b", Low, true}, {1, "c", High, true}},
			want:   []string{"c", "b", "a"}},
		{name: "in front of a lower priority it keeps its place",
			pushes: []push{{1, "a", High, false}, {1, "b", High, false}, {1, "c", Low, false}, {1, "b", Low, true}},
			want:   []string{"a", "b", "c"}},
		{name: "removed",
			pushes: []push{{1, "a", Low, false}, {1, "b", Low, false}, {1, "c", Low, false}, {2, "d", High, false}},
			remove: []string{"b", "d", "unknown"},
			want:   []string{"a", "c"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := New[string](Config{Batch: 100, Every: time.Second})
			for _, p := range tt.pushes {
				p.to(q)
			}
			for _, k := range tt.remove {
				if waited := q.Has(k); q.Remove(k) != waited || q.Has(k) {
					t.Errorf("Remove(%q) of a key that waited: %v", k, waited)
				}
			}
			if q.Len() != len(tt.want) {
				t.Errorf("Len = %d, want %d", q.Len(), len(tt.want))
			}
			if got := drain(q, start); !cmp.Equal(got, tt.want) {
				t.Errorf("popped %v, want %v", got, tt.want)
			}
		})
	}
}

func drain[K comparable](q *Queue[K], now time.Time) (keys []K) {
	for key, ok := q.Pop(now); ok; key, ok = q.Pop(now) {
		keys = append(keys, key)
	}
	return keys
}

func TestRate(t *testing.T) {
	q := New[int](Config{Batch: 40, Every: time.Second})
	for i := range 10_000 {
		q.Push(uint32(i%7), i, Normal)
	}
	pops := func(after time.Duration) (n int) {
		for _, ok := q.Pop(start.Add(after)); ok; _, ok = q.Pop(start.Add(after)) {
			n++
		}
		return n
	}
	for _, step := range []struct {
		name  string
		after time.Duration
		want  int
	}{
		{"a full bucket at first", 0, 40},
		{"nothing at once after", 0, 0},
		{"a second's", time.Second, 40},
		{"a tenth of a second's", 1100 * time.Millisecond, 4},
		{"a clock that goes back", time.Second, 0},
		{"from there on", 2 * time.Second, 40},
		{"not more than the burst after a pause", time.Hour, 40},
	} {
		if got := pops(step.after); got != step.want {
			t.Errorf("%s: popped %d, want %d", step.name, got, step.want)
		}
	}
	q.Scale(0.1)
	for i, want := range []int{4, 4, 4} {
		if got := pops(time.Hour + time.Duration(i+1)*time.Second); got != want {
			t.Errorf("at a tenth, second %d: popped %d, want %d", i, got, want)
		}
	}
	q.Scale(0.001)
	if got := pops(time.Hour + 28*time.Second); got != 1 {
		t.Errorf("at a thousandth, after 25 s: popped %d, want 1", got)
	}
	q.Refund()
	if got := pops(time.Hour + 28*time.Second); got != 1 {
		t.Errorf("after a refund: popped %d, want 1", got)
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []Config{{}, {Batch: 1}, {Every: 1}, {Batch: -1, Every: -1}} {
		if c.Validate() == nil {
			t.Errorf("Validate of %+v succeeded", c)
		}
	}
	if err := (Config{Batch: 1, Every: 1}).Validate(); err != nil {
		t.Error(err)
	}
}

var priority = rapid.SampledFrom([]Priority{Low, Normal, High})

// TestModel compares the queue with one that searches a list.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := New[int](Config{Batch: 1 << 20, Every: time.Second})
		m := model{}
		key := rapid.IntRange(0, 30)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				k, p := key.Draw(t, "key"), priority.Draw(t, "priority")
				q.Push(uint32(k%5), k, p)
				m.push(uint32(k%5), k, p)
			},
			"push in front": func(t *rapid.T) {
				k, p := key.Draw(t, "key"), priority.Draw(t, "priority")
				q.PushFront(uint32(k%5), k, p)
				m.pushFront(uint32(k%5), k, p)
			},
			"remove": func(t *rapid.T) {
				k := key.Draw(t, "key")
				if got, want := q.Remove(k), m.remove(k); got != want {
					t.Fatalf("Remove(%d) = %v, want %v", k, got, want)
				}
			},
			"pop": func(t *rapid.T) {
				got, ok := q.Pop(start)
				if want, wantOK := m.pop(); got != want || ok != wantOK {
					t.Fatalf("Pop = %d, %v, want %d, %v", got, ok, want, wantOK)
				}
			},
			"": func(t *rapid.T) {
				if q.Len() != len(m.entries) {
					t.Fatalf("Len = %d, want %d", q.Len(), len(m.entries))
				}
				if q.Len() == 0 && (q.levels != [levels]list{} || q.items.inUse()+q.lines.inUse() != 0) {
					t.Fatalf("an empty queue has levels %v, %d items and %d lines", q.levels, q.items.inUse(), q.lines.inUse())
				}
			},
		})
	})
}

// lineOf identifies the keys of one app at one level.
type lineOf struct {
	level Priority
	app   uint32
}

const fifth = 5 // a level that waits gets at least one of so many pops

// shares checks who waits. It counts down the pops that a level and an app may still wait.
type shares struct {
	queued map[int]lineOf
	level  [levels]int
	line   map[lineOf]int
}

// lines returns how many apps wait at each level.
func (s *shares) lines() (n [levels]int) {
	seen := map[lineOf]bool{}
	for _, l := range s.queued {
		if !seen[l] {
			seen[l] = true
			n[l.level]++
		}
	}
	return n
}

func (s *shares) push(key int, l lineOf) {
	before := s.lines()
	if s.queued[key] = l; s.lines() == before {
		return // its app waits already
	}
	if s.line[l] = before[l.level]; before[l.level] == 0 {
		s.level[l.level] = fifth - 1
	}
}

func (s *shares) pop(t *rapid.T, key int) {
	popped, waited := s.queued[key]
	if !waited {
		t.Fatalf("popped %d, which does not wait", key)
	}
	delete(s.queued, key)
	lines := s.lines()
	for p, n := range lines {
		switch s.level[p]--; {
		case Priority(p) == popped.level:
			s.level[p] = fifth - 1
		case n > 0 && s.level[p] < 0:
			t.Fatalf("level %d waited for %d pops", p, fifth)
		}
	}
	for l := range s.line {
		if l.level == popped.level && l != popped {
			s.line[l]--
		}
	}
	s.line[popped] = lines[popped.level] - 1
	for _, l := range s.queued {
		if s.line[l] < 0 {
			t.Fatalf("%+v waits for a second pop of an app", l)
		}
	}
}

// TestShares pops from queues of any load. A level gets one of any five pops while it waits, and an app waits for at most one
// pop of each other app of its level. No key is lost, and none is popped twice.
func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, s := New[int](Config{Batch: 1 << 20, Every: time.Second}), shares{queued: map[int]lineOf{}, line: map[lineOf]int{}}
		key := 0
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			for range rapid.SampledFrom([]int{0, 0, 0, 1, 2, 20}).Draw(t, "pushes") {
				l := lineOf{priority.Draw(t, "level"), rapid.Uint32Range(0, 6).Draw(t, "app")}
				q.Push(l.app, key, l.level)
				s.push(key, l)
				key++
			}
			if got, ok := q.Pop(start); ok {
				s.pop(t, got)
			}
			if q.Len() != len(s.queued) {
				t.Fatalf("%d keys wait, want %d", q.Len(), len(s.queued))
			}
		}
		for _, got := range drain(q, start) {
			s.pop(t, got)
		}
		if len(s.queued) > 0 {
			t.Fatalf("not popped: %v", s.queued)
		}
	})
}

type entry struct {
	app      uint32
	key      int
	priority Priority
}

// inUse returns the number of places that hold a value.
func (s *slab[T]) inUse() int {
	n := int(s.used) - 1
	for at := s.unused; at != 0; at = s.node(at).next {
		n--
	}
	return n
}

// model stores the waiting keys in order of arrival, and the turns of each priority.
type model struct {
	entries []entry
	turns   map[Priority][]uint32
	shared  int // pops in a row from several waiting levels
}

func (m *model) find(key int) int {
	return slices.IndexFunc(m.entries, func(e entry) bool { return e.key == key })
}

func (m *model) push(app uint32, key int, p Priority) {
	if i := m.find(key); i >= 0 {
		if m.entries[i].priority >= p {
			return
		}
		m.remove(key)
	}
	m.entries = append(m.entries, entry{app, key, p})
	if m.turns == nil {
		m.turns = map[Priority][]uint32{}
	}
	if !slices.Contains(m.turns[p], app) {
		m.turns[p] = append(m.turns[p], app)
	}
}

func (m *model) pushFront(app uint32, key int, p Priority) {
	i := m.find(key)
	if i >= 0 && m.entries[i].priority > p {
		return
	}
	same := i >= 0 && m.entries[i].priority == p
	if same {
		m.entries = slices.Delete(m.entries, i, i+1)
	} else {
		m.push(app, key, p)
		m.entries = m.entries[:len(m.entries)-1]
	}
	m.entries = slices.Insert(m.entries, 0, entry{app, key, p})
}

func (m *model) remove(key int) bool {
	i := m.find(key)
	if i < 0 {
		return false
	}
	e := m.entries[i]
	m.entries = slices.Delete(m.entries, i, i+1)
	if !slices.ContainsFunc(m.entries, func(o entry) bool { return o.app == e.app && o.priority == e.priority }) {
		m.turns[e.priority] = slices.DeleteFunc(m.turns[e.priority], func(a uint32) bool { return a == e.app })
	}
	return true
}

// level returns the level of the next pop.
func (m *model) level() Priority {
	var waits []Priority
	for p := range levels {
		if slices.ContainsFunc(m.entries, func(e entry) bool { return e.priority == p }) {
			waits = append(waits, p)
		}
	}
	if len(waits) == 1 {
		m.shared = 0
		return waits[0]
	}
	m.shared++
	switch m.shared % 5 {
	case 4:
		if slices.Contains(waits, Normal) {
			return Normal
		}
	case 0:
		if slices.Contains(waits, Low) {
			return Low
		}
	}
	return waits[len(waits)-1]
}

func (m *model) pop() (int, bool) {
	if len(m.entries) == 0 {
		return 0, false
	}
	p := m.level()
	app := m.turns[p][0]
	i := slices.IndexFunc(m.entries, func(e entry) bool { return e.priority == p && e.app == app })
	key := m.entries[i].key
	m.remove(key)
	if t := m.turns[p]; len(t) > 0 && t[0] == app {
		m.turns[p] = append(t[1:], app)
	}
	return key, true
}

// BenchmarkMassLoss is a tick after the loss of 50 000 copies: all are pushed, one batch is
// popped.
func BenchmarkMassLoss(b *testing.B) {
	type place struct{ app, index uint32 }
	for b.Loop() {
		q := New[place](Config{Batch: 40, Every: time.Second})
		for i := range 50_000 {
			q.Push(uint32(i), place{app: uint32(i), index: 1}, Normal)
		}
		for _, ok := q.Pop(start); ok; _, ok = q.Pop(start) {
		}
	}
}

// BenchmarkPop is one pop from 50 000 keys.
func BenchmarkPop(b *testing.B) {
	q := New[int](Config{Batch: 1 << 30, Every: time.Nanosecond})
	for i := range 50_000 {
		q.Push(uint32(i%20_000), i, Normal)
	}
	now := start
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Second)
		key, _ := q.Pop(now)
		q.Push(uint32(key%20_000), key, Normal)
	}
}
