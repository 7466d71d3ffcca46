package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weirkeeper/weirkeeper/pools"
)

// listed is a provider of groups without machines.
type listed struct {
	groups  []pools.Group
	missing pools.Missing
}

func (l *listed) Groups(context.Context) (pools.Listing, error) {
	return pools.Listing{Groups: l.groups, Missing: l.missing}, nil
}

// ofKind is a group of a kind.
type ofKind struct {
	pools.Group
	id, kind string
}

func (k ofKind) ID() string { return k.id }
func (k ofKind) Snapshot(context.Context) (pools.GroupSnapshot, error) {
	return pools.GroupSnapshot{ID: k.id, Kind: k.kind}, nil
}

// The machines of a group that may be missing from a list have not ended. Those of a group of another kind, which was listed
// completely, have.
func TestMissingGroupsCountAsTheyWere(t *testing.T) {
	asg, sfr, other := ofKind{id: "a", kind: "asg"}, ofKind{id: "s", kind: "sfr"}, ofKind{id: "s2", kind: "sfr"}
	l := &listed{groups: []pools.Group{asg}, missing: pools.Missing{"sfr": errors.New("denied")}}
	w := &watcher{shared: &shared{world: &World{Pool: l}}}
	if _, err := w.groups(t.Context()); err == nil {
		t.Error("no error for a first list that may lack groups")
	}
	for i, step := range []struct {
		groups  []pools.Group
		missing pools.Missing
		want    string
	}{
		{[]pools.Group{asg, sfr, other}, nil, "[a s s2]"},
		{[]pools.Group{other}, pools.Missing{"asg": errors.New("denied")}, "[a s2]"},
		{nil, pools.Missing{"asg": errors.New("denied"), "sfr": errors.New("denied")}, "[a s2]"},
		{[]pools.Group{other}, nil, "[s2]"},
	} {
		l.groups, l.missing = step.groups, step.missing
		found, err := w.groups(t.Context())
		var ids []string
		for _, g := range found {
			ids = append(ids, g.ID)
		}
		if got := fmt.Sprint(ids); err != nil || got != step.want {
			t.Errorf("step %d: %s, %v, want %s", i, got, err, step.want)
		}
	}
}
