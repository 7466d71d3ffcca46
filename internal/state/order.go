package state

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
	"github.com/weirkeeper/weirkeeper/pools/rotate"
)

// order is one of a pool's orders.
type order struct {
	key      string
	revision uint64
	note     api.Note
	add      func(*api.Orders)
}

// decodeOrder decodes an order. name is its key without the prefix.
func decodeOrder(name string, value []byte) (order, error) {
	if len(value) > maxOrder {
		return order{}, fmt.Errorf("longer than %d bytes", maxOrder)
	}
	kind, of, _ := strings.Cut(name, ".")
	o, err := order{}, error(nil)
	switch {
	case name == "pause":
		o, err = decodePause(value)
	case name == "offset":
		o, err = decodeOffset(value)
	case name == "pin":
		o, err = decodePin(value)
	case name == rotateOrder:
		o, err = decodeRotate(value)
	case name == resumeOrder:
		o, err = decodeResume(value)
	case name == acceptanceOrder:
		o, err = decodeAcceptance(value)
	case kind == "remove":
		o, err = decodeRemoval(of, value)
	case kind == "stale":
		o, err = decodeStale(of, value)
	default:
		err = errors.New("unknown order")
	}
	if err != nil {
		return order{}, err
	}
	return o, checkNote(o.note)
}

func decodePause(value []byte) (order, error) {
	var n api.Note
	err := strictjson.Decode(value, &n)
	return order{note: n, add: func(all *api.Orders) { all.Pause = &n }}, err
}

func decodeOffset(value []byte) (order, error) {
	var x api.Offset
	err := strictjson.Decode(value, &x)
	if err == nil && !finite(x.Weight) {
		err = fmt.Errorf("weight %v: want a number", x.Weight)
	}
	return order{note: x.Note, add: func(all *api.Orders) { all.Offset = &x }}, err
}

func decodePin(value []byte) (order, error) {
	var p api.Pin
	err := strictjson.Decode(value, &p)
	switch {
	case err != nil:
	case p.Bound != "" && p.Bound != "min" && p.Bound != "max":
		err = fmt.Errorf("bound %.80q: want min or max", p.Bound)
	case !finite(p.Target) || p.Target < 0:
		err = fmt.Errorf("target %v: want a number of at least 0", p.Target)
	}
	return order{note: p.Note, add: func(all *api.Orders) { all.Pin = &p }}, err
}

func decodeAcceptance(value []byte) (order, error) {
	var a api.Acceptance
	err := strictjson.Decode(value, &a)
	switch {
	case err != nil:
	case a.Through.IsZero():
		err = errors.New("through is missing")
	case a.Until.IsZero():
		err = errors.New("until is missing")
	}
	return order{note: a.Note, add: func(all *api.Orders) { all.Accepted = &a }}, err
}

func decodeRemoval(token string, value []byte) (order, error) {
	var r api.Removal
	err := strictjson.Decode(value, &r)
	if err == nil {
		err = checkNode(r.Node)
	}
	if err == nil && r.Node != token {
		err = fmt.Errorf("it belongs to node %.80q", r.Node)
	}
	return order{note: r.Note, add: func(all *api.Orders) { all.Removals = append(all.Removals, r) }}, err
}

func decodeStale(token string, value []byte) (order, error) {
	var m api.StaleMark
	err := strictjson.Decode(value, &m)
	if err == nil {
		var of string
		if of, err = GroupToken(m.Group); err == nil && of != token {
			err = fmt.Errorf("it belongs to group %.80q", m.Group)
		}
		if err == nil && m.Where != "" {
			err = fmt.Errorf("where %.80q: a roll has no condition", m.Where)
		}
	}
	return order{note: m.Note, add: func(all *api.Orders) { all.Stale = append(all.Stale, m) }}, err
}

func decodeRotate(value []byte) (order, error) {
	var m api.StaleMark
	err := strictjson.Decode(value, &m)
	switch {
	case err != nil:
	case m.Group != "":
		err = fmt.Errorf("group %.80q: want it in the condition", m.Group)
	default:
		_, err = rotate.Parse(m.Where)
	}
	return order{note: m.Note, add: func(all *api.Orders) { all.Stale = append(all.Stale, m) }}, err
}

func decodeResume(value []byte) (order, error) {
	var n api.Note
	err := strictjson.Decode(value, &n)
	if err == nil && n.Until.IsZero() {
		err = errors.New("until is missing")
	}
	return order{note: n, add: func(all *api.Orders) { all.Resume = &n }}, err
}

func checkNote(n api.Note) error {
	if n.By == "" {
		return errors.New("by is missing")
	}
	if n.At.IsZero() {
		return errors.New("at is missing")
	}
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func inOrder(all api.Orders) api.Orders {
	slices.SortFunc(all.Removals, func(a, b api.Removal) int { return cmp.Compare(a.Node, b.Node) })
	slices.SortFunc(all.Stale, func(a, b api.StaleMark) int { return cmp.Compare(a.Group, b.Group) })
	return all
}
