package resolve

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Group is one group, from the provider and the drain records.
type Group struct {
	ID     string
	Target int // at the provider
	Min    int // the provider does not lower Target below it
	Max    int // of Target; pools.Unlimited if there is no upper bound
	Stale  bool
	// Fulfilled is the weight of the existing instances.
	Fulfilled float64
	// Leaving are the leaving nodes that Target still includes. Their termination lowers Target.
	Leaving []Leaver
	// Quarantined are the nodes out of service that stay in Target. Other nodes replace them.
	Quarantined []Leaver
}

// Account states the parts of the targets of a pool's groups. Weights are whole numbers, as targets
// are.
//
//	per group  Target = Share + Surge + leaving + aside
//	per pool   sum of Share + Owed - Surplus = Wanted + Offset
//	           Owed >= 0, Surplus >= 0, and one of them is 0
//
// The sum is over the groups that are not stale. Wanted falls only in a tick with a known need, or
// by an operator: unknown need never shrinks a pool.
type Account struct {
	Wanted float64 // the weight that the pool should have, without Offset
	Offset float64 // the part of an operator's offset that the pool has
	Groups []GroupAccount
}

// GroupAccount states the parts of one group's target.
type GroupAccount struct {
	Group
	// Surge is the part of Target that was ordered beside marked instances, which stay until their
	// replacements join.
	Surge int
}

// Account returns the account of these groups.
func (s State) Account(groups []Group) Account {
	a := Account{Offset: s.Offset, Groups: make([]GroupAccount, len(groups))}
	for i, g := range groups {
		a.Groups[i] = s.group(g)
	}
	if s.Wanted != nil {
		a.Wanted = *s.Wanted
	}
	return a
}

func (s State) group(g Group) GroupAccount {
	one := GroupAccount{Group: g}
	one.Surge = max(0, min(s.Groups[g.ID].Surge, g.Target-one.leaving()-one.aside()))
	return one
}

// Share returns the part of the target that serves the pool's need.
func (g GroupAccount) Share() int { return g.Target - g.Beside() }

// Beside returns the rest of the target: surge, leaving nodes and quarantined nodes.
func (g GroupAccount) Beside() int { return g.Surge + g.leaving() + g.aside() }

// aside returns the part of the target that quarantined nodes hold.
func (g GroupAccount) aside() int {
	sum := 0
	for _, n := range g.quarantinedParts() {
		sum += n
	}
	return sum
}

// quarantinedParts returns the part of the target that each quarantined node holds. Their sum is at most the
// target less the part of the leaving nodes.
func (g GroupAccount) quarantinedParts() []int {
	out, weight, sum := make([]int, len(g.Quarantined)), 0.0, 0
	most := max(0, g.Target-g.leaving())
	for i, n := range g.Quarantined {
		weight += n.Weight
		out[i] = min(Whole(weight), most) - sum
		sum += out[i]
	}
	return out
}

// leaving returns the part of the target that the leaving nodes hold: their weight, rounded down.
// The provider does not lower the target below the minimum, and replaces a node that ends there. A
// node that waits for its replacement ends only after a raise of the target. So it holds its part
// at the minimum too.
func (g GroupAccount) leaving() int {
	sum := 0
	for _, n := range g.leavers() {
		sum += n
	}
	return sum
}

// leavers returns the part of the target that each leaving node holds.
func (g GroupAccount) leavers() []int {
	out, weight, sum := make([]int, len(g.Leaving)), 0.0, 0
	most := min(g.Target, max(0, g.Target-max(0, g.Min))+g.waiting())
	for i, l := range g.Leaving {
		weight += l.Weight
		out[i] = min(Whole(weight), most) - sum
		sum += out[i]
	}
	return out
}

// waiting returns the weight of the leaving nodes that wait for their replacements, rounded down.
func (g GroupAccount) waiting() int {
	weight := 0.0
	for _, l := range g.Leaving {
		if l.Waits {
			weight += l.Weight
		}
	}
	return Whole(weight)
}

// Shares returns the sum of the shares of all groups that are not stale.
func (a Account) Shares() int {
	sum := 0
	for _, g := range a.Groups {
		if !g.Stale {
			sum += g.Share()
		}
	}
	return sum
}

// Shares returns the sum of the shares of groups with that remaining surge.
func Shares(groups []Group, surge map[string]int) int {
	s := State{Groups: make(map[string]GroupState, len(surge))}
	for group, n := range surge {
		s.Groups[group] = GroupState{Surge: n}
	}
	return s.Account(groups).Shares()
}

// PendingIncrease returns the wanted weight that no group's target holds. It is ordered as soon as a group has
// room.
func (a Account) PendingIncrease() float64 { return max(0, a.residual()) }

// Surplus returns the weight in the groups' targets beyond the wanted weight. A scale-in removes
// it, also while the need is unknown.
func (a Account) Surplus() float64 { return max(0, -a.residual()) }

func (a Account) residual() float64 { return a.Wanted + a.Offset - float64(a.Shares()) }

// ReadLag is the time for which a provider may show a group as it was before a request.
const ReadLag = 3 * time.Minute

// EntryKind is the kind of one part of the targets.
type EntryKind string

const (
	EntryShare           EntryKind = "share"   // of a group: serves the need
	EntrySurge           EntryKind = "surge"   // of a group: replaces marked instances that still exist
	EntryLeaving         EntryKind = "leaving" // of a node: the target falls when the node is terminated
	EntryQuarantined     EntryKind = "aside"   // of a node: quarantined, and replaced by another node
	EntryPendingIncrease EntryKind = "owed"    // of the pool: wanted, and not in a target yet
	EntrySurplus         EntryKind = "surplus" // of the pool: in a target, and not wanted
	EntryWanted          EntryKind = "wanted"  // of the pool
	EntryOffset          EntryKind = "offset"  // of the pool: an operator's offset
	EntryUnknown         EntryKind = "unknown" // of the pool: found without a cause, and counted as wanted
)

// maxWeight is the maximum weight in a State, so that no sum overflows.
const maxWeight = 1 << 40

// Validate returns an error for an invalid part of the account.
func (s State) Validate() error {
	if s.Wanted != nil && !(math.Abs(*s.Wanted) <= maxWeight) {
		return fmt.Errorf("wanted %v: want at most %d", *s.Wanted, maxWeight)
	}
	if !(math.Abs(s.Offset) <= maxWeight) {
		return fmt.Errorf("offset %v: want at most %d", s.Offset, maxWeight)
	}
	for id, g := range s.Groups {
		if u := g.Unanswered.target(); u < 0 || u > maxWeight {
			return fmt.Errorf("group %q: the unanswered target %d is not within 0 to %d", id, u, maxWeight)
		}
		if g.Surge < 0 || g.Surge > maxWeight || g.LastTarget != nil && (*g.LastTarget < 0 || *g.LastTarget > maxWeight) {
			return fmt.Errorf("group %q: a target or a surge is not within 0 to %d", id, maxWeight)
		}
	}
	return nil
}

// Entry is one line of an account, for operators and for the ledger. Weight is in the unit of the
// groups' targets.
type Entry struct {
	Kind   EntryKind `json:"kind"`
	Group  string    `json:"group,omitempty"`
	Node   string    `json:"node,omitempty"`
	Weight float64   `json:"weight"`
}

// Entries are the lines of an account.
type Entries []Entry

// Sum returns the weight of all entries of that kind.
func (es Entries) Sum(kind EntryKind) (weight float64) {
	for _, e := range es {
		if e.Kind == kind {
			weight += e.Weight
		}
	}
	return weight
}

// Entries returns the lines of the account, sorted by group, with those of the pool last. Lines
// with weight 0 are left out, except a group's share and the wanted weight.
func (a Account) Entries() Entries {
	out := make(Entries, 0, 2*len(a.Groups)+4)
	add := func(kind EntryKind, group, node string, weight float64) {
		if weight != 0 || kind == EntryShare || kind == EntryWanted {
			out = append(out, Entry{kind, group, node, weight})
		}
	}
	groups := slices.Clone(a.Groups)
	slices.SortFunc(groups, func(a, b GroupAccount) int { return cmp.Compare(a.ID, b.ID) })
	for _, g := range groups {
		add(EntryShare, g.ID, "", float64(g.Share()))
		add(EntrySurge, g.ID, "", float64(g.Surge))
		for i, n := range g.leavers() {
			add(EntryLeaving, g.ID, g.Leaving[i].ID, float64(n))
		}
		for i, n := range g.quarantinedParts() {
			add(EntryQuarantined, g.ID, g.Quarantined[i].ID, float64(n))
		}
	}
	add(EntryWanted, "", "", a.Wanted)
	add(EntryOffset, "", "", a.Offset)
	add(EntryPendingIncrease, "", "", a.PendingIncrease())
	add(EntrySurplus, "", "", a.Surplus())
	return out
}

// Drifted is a group whose target another party set.
type Drifted struct {
	Group      string `json:"group"`
	LastTarget int    `json:"last_target"` // last target that this autoscaler set
	Found      int    `json:"found"`
}

// Found is what a reading of the groups shows in addition to their targets.
type Found struct {
	Drift []Drifted
	// Unknown is the weight that an unfinished request does not explain. It counts as wanted.
	Unknown float64
}

// And returns the results of two readings as one, f first.
func (f Found) And(later Found) Found {
	return Found{slices.Concat(f.Drift, later.Drift), f.Unknown + later.Unknown}
}

// Reconcile returns s after a reading of these groups. A group that s does not have adds its share
// to the wanted weight. A group that disappeared or became stale leaves its share as a pending
// increase. If another party set a target and obey is true, the wanted weight changes; otherwise
// the difference is a pending increase or a surplus.
//
// The first reading of a group that appears may be late, and the next one lower: within ReadLag a
// lower target takes back no more than what the group has added.
//
// If the result of a group's last request is unknown, each target up to the requested one is
// explained. A lower target leaves the difference as a pending increase. A higher target counts as
// wanted. A provider may show the results late, and one by one: a lower target is explained for
// ReadLag after the first reading.
func (s State) Reconcile(now time.Time, groups []Group, obey bool) (State, Found) {
	account, known := s.Account(groups), s.Wanted != nil
	var found Found
	added, resultUnknown := 0.0, false
	out := make(map[string]GroupState, len(groups))
	for _, g := range account.Groups {
		of := s.Groups[g.ID]
		first := of.ResultUnknown && of.UnknownSince.IsZero()
		resultUnknown = resultUnknown || first
		of.Surge = g.Surge
		if of.Appeared != nil && now.Sub(of.Appeared.At) >= ReadLag {
			of.Appeared = nil
		}
		switch before := of.LastTarget; {
		case g.Stale:
		case before == nil:
			added += float64(g.Share())
			if known && g.Share() > 0 {
				of.Appeared = &Appeared{g.Share(), now}
			}
		case first || of.ResultUnknown && g.Target < *before:
		case *before != g.Target:
			found.Drift = append(found.Drift, Drifted{g.ID, *before, g.Target})
			if obey {
				expected := g.Group
				expected.Target = *before
				var change int
				change, of.Appeared = of.Appeared.limit(g.Share() - s.group(expected).Share())
				added += float64(change)
			}
		}
		if !g.Stale {
			if first {
				of.UnknownSince = now
			}
			of.ResultUnknown = of.ResultUnknown && now.Sub(of.UnknownSince) < ReadLag
			if !of.ResultUnknown {
				of.UnknownSince = time.Time{}
			}
			of.Unanswered = of.unanswered(now, g.Target, first)
			of.LastTarget = new(g.Target)
		}
		out[g.ID] = of
	}
	if !known {
		added -= s.Offset
	}
	s.Groups = out
	s.Wanted = new(account.Wanted + added)
	if resultUnknown && known {
		found.Unknown = s.Account(groups).Surplus()
		*s.Wanted += found.Unknown
	}
	return s, found
}

// limit returns the part of a change of the group's share that counts in the wanted weight, and what
// is left of a: a decrease is at most what the group has added.
func (a *Appeared) limit(change int) (int, *Appeared) {
	if a == nil || change >= 0 {
		return change, a
	}
	change = max(change, -a.Share)
	return change, &Appeared{a.Share + change, a.At}
}

// unanswered returns the requested target that may still take effect after a reading of this
// target. It is the first reading after a request whose result is unknown if first is true.
func (g GroupState) unanswered(now time.Time, target int, first bool) *Unanswered {
	u := g.Unanswered
	if u != nil && now.Sub(u.Since) >= ReadLag {
		u = nil
	}
	if first && g.LastTarget != nil {
		u = &Unanswered{max(*g.LastTarget, u.target()), now}
	}
	if u.target() <= target {
		return nil
	}
	return u
}

// target returns the requested target, or 0 if it is missing.
func (u *Unanswered) target() int {
	if u == nil {
		return 0
	}
	return u.Target
}

// Larger returns the state to save before the requests that lead from s to after. Whatever the
// results, its wanted weight and its surge are not less than the groups' targets hold for them.
func (s State) Larger(after State) State {
	if s.Wanted != nil && after.Wanted != nil && *s.Wanted+s.Offset > *after.Wanted+after.Offset {
		after.Wanted, after.Offset = s.Wanted, s.Offset
	}
	after.Groups = maps.Clone(after.Groups)
	for group, before := range s.Groups {
		if of, kept := after.Groups[group]; kept {
			of.Surge = max(of.Surge, before.Surge)
			after.Groups[group] = of
		}
	}
	return after
}
