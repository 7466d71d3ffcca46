package sigproto

import (
	"errors"
	"maps"
)

// seriesTable stores a value for each series of the last evaluation, by name. Evaluations usually name the same series
// in the same order, so it tries the position before the map. A round is one evaluation: begin, next for each series,
// end. A round may be abandoned before its end.
type seriesTable[T any] struct {
	round  uint64
	byName map[string]*tableEntry[T]
	order  []*tableEntry[T] // the first at entries belong to this round, the others to the last
	at     int
}

type tableEntry[T any] struct {
	name  string
	round uint64 // last round that named it
	kept  T
}

func (r *seriesTable[T]) begin() {
	r.round++
	r.at = 0
	if r.byName == nil {
		r.byName = make(map[string]*tableEntry[T])
	}
}

// next returns the value of the next series in this round, or a zero T for a new series. A name that repeats in a round
// is an error.
func (r *seriesTable[T]) next(name string) (*T, error) {
	m := r.find(name)
	switch {
	case m == nil:
		m = &tableEntry[T]{name: name}
		r.byName[name] = m
	case m.round == r.round:
		return nil, errors.New("appears twice")
	}
	m.round = r.round
	if r.at < len(r.order) {
		r.order[r.at] = m
	} else {
		r.order = append(r.order, m)
	}
	r.at++
	return &m.kept, nil
}

func (r *seriesTable[T]) find(name string) *tableEntry[T] {
	if r.at < len(r.order) && r.order[r.at].name == name {
		return r.order[r.at]
	}
	return r.byName[name]
}

// intern returns the text as a string. It does not allocate for a stored name.
func (r *seriesTable[T]) intern(text []byte) string {
	if r.at < len(r.order) && r.order[r.at].name == string(text) {
		return r.order[r.at].name
	}
	if m := r.byName[string(text)]; m != nil {
		return m.name
	}
	return string(text)
}

// end removes the series that this round did not name.
func (r *seriesTable[T]) end() {
	clear(r.order[r.at:])
	r.order = r.order[:r.at]
	if len(r.byName) > r.at {
		maps.DeleteFunc(r.byName, func(_ string, m *tableEntry[T]) bool { return m.round != r.round })
	}
}
