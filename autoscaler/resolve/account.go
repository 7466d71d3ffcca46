package resolve

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// Group is one group, from the provider and the drain records.
type Group struct {
	ID     string
	Target int // at the provider
	Min    int // the provider does not lower Target below it
	Max    int // of Target; api.Unbounded if there is no upper bound
	Stale  bool
	// Unknown: the group could not be read, so Target is the last known one.
	Unknown bool
	// Fulfilled is the weight of the existing instances.
	Fulfilled float64
	// Leaving are the leaving nodes that Target still includes. Their termination lowers Target.
	Leaving []api.Leaver
	// Ended is the weight of the nodes that were terminated after the last known target: Target is without it.
	Ended float64
	// Quarantined are the nodes out of service that stay in Target. Other nodes replace them.
	Quarantined []api.Leaver
}

// Account states the parts of the targets of a pool's groups. Weights are whole numbers, as targets
// are.
//
//	per group  Target = Share + Surge + leaving + quarantined
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

// AccountOf returns the account of these groups.
func AccountOf(s api.PoolState, groups []Group) Account {
	a := Account{Offset: s.Offset, Groups: make([]GroupAccount, len(groups))}
	for i, g := range groups {
		a.Groups[i] = groupAccount(s, g)
	}
	if s.Wanted != nil {
		a.Wanted = *s.Wanted
	}
	return a
}

func groupAccount(s api.PoolState, g Group) GroupAccount {
	one := GroupAccount{Group: g}
	one.Surge = max(0, min(s.Groups[g.ID].Surge, g.Target-one.leaving()-one.quarantinedPart()))
	return one
}

// Share returns the part of the target that serves the pool's need.
func (g GroupAccount) Share() int { return g.Target - g.Beside() }

// Beside returns the rest of the target: surge, leaving nodes and quarantined nodes.
func (g GroupAccount) Beside() int { return g.Surge + g.leaving() + g.quarantinedPart() }

// quarantinedPart returns the part of the target that quarantined nodes hold.
func (g GroupAccount) quarantinedPart() int {
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
	s := api.PoolState{Groups: make(map[string]api.GroupState, len(surge))}
	for group, n := range surge {
		s.Groups[group] = api.GroupState{Surge: n}
	}
	return AccountOf(s, groups).Shares()
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

// maxWeight is the maximum weight in a State, so that no sum overflows.
const maxWeight = 1 << 40

// ValidateState returns an error for an invalid part of the account.
func ValidateState(s api.PoolState) error {
	if s.Wanted != nil && !(math.Abs(*s.Wanted) <= maxWeight) {
		return fmt.Errorf("wanted %v: want at most %d", *s.Wanted, maxWeight)
	}
	if !(math.Abs(s.Offset) <= maxWeight) {
		return fmt.Errorf("offset %v: want at most %d", s.Offset, maxWeight)
	}
	for id, g := range s.Groups {
		if u := unansweredTarget(g.Unanswered); u < 0 || u > maxWeight {
			return fmt.Errorf("group %q: the unanswered target %d is not within 0 to %d", id, u, maxWeight)
		}
		if g.Surge < 0 || g.Surge > maxWeight || g.LastTarget != nil && (*g.LastTarget < 0 || *g.LastTarget > maxWeight) {
			return fmt.Errorf("group %q: a target or a surge is not within 0 to %d", id, maxWeight)
		}
		for _, m := range g.Markets {
			if !(m.Weight > 0 && m.Weight <= maxWeight) {
				return fmt.Errorf("group %q: a machine of %s weighs %v: want more than 0, at most %d", id, m, m.Weight, maxWeight)
			}
		}
		if p := g.PerHour; p != nil && !(*p >= 0 && *p <= mostPrice) {
			return fmt.Errorf("group %q: the price %v is not within 0 to %v", id, *p, mostPrice)
		}
	}
	for market, m := range s.Markets {
		if !(m.Hours >= 0 && m.Hours <= maxWeight && m.Interruptions >= 0 && m.Interruptions <= maxWeight) || m.Machines < 0 {
			return fmt.Errorf("market %q: %v machine-hours, %v interruptions, %d machines: want numbers from 0 to %d", market, m.Hours, m.Interruptions, m.Machines, maxWeight)
		}
	}
	return nil
}

// Entries returns the lines of the account, sorted by group, with those of the pool last. Lines
// with weight 0 are left out, except a group's share and the wanted weight.
func (a Account) Entries() api.Account {
	out := make(api.Account, 0, 2*len(a.Groups)+4)
	add := func(kind api.EntryKind, group, node string, weight float64) {
		if weight != 0 || kind == api.EntryShare || kind == api.EntryWanted {
			out = append(out, api.AccountEntry{Kind: kind, Group: group, Node: node, Weight: weight})
		}
	}
	groups := slices.Clone(a.Groups)
	slices.SortFunc(groups, func(a, b GroupAccount) int { return cmp.Compare(a.ID, b.ID) })
	for _, g := range groups {
		add(api.EntryShare, g.ID, "", float64(g.Share()))
		add(api.EntrySurge, g.ID, "", float64(g.Surge))
		for i, n := range g.leavers() {
			add(api.EntryLeaving, g.ID, g.Leaving[i].ID, float64(n))
		}
		for i, n := range g.quarantinedParts() {
			add(api.EntryQuarantined, g.ID, g.Quarantined[i].ID, float64(n))
		}
	}
	add(api.EntryWanted, "", "", a.Wanted)
	add(api.EntryOffset, "", "", a.Offset)
	add(api.EntryPendingIncrease, "", "", a.PendingIncrease())
	add(api.EntrySurplus, "", "", a.Surplus())
	return out
}

// Found is what a reading of the groups shows in addition to their targets.
type Found struct {
	Drift []api.Drift
	// Unknown is the weight that an unfinished request does not explain. It counts as wanted.
	Unknown float64
	// Gone are the groups that disappeared.
	Gone []string
}

// And returns the results of two readings as one, f first.
func (f Found) And(later Found) Found {
	return Found{slices.Concat(f.Drift, later.Drift), f.Unknown + later.Unknown, slices.Concat(f.Gone, later.Gone)}
}

// Reconcile returns s after a reading of these groups. A group that s does not have adds its share
// to the wanted weight. A group that disappeared or became stale leaves its share as a pending
// increase. An unknown group keeps its state. If another party set a target and obey is true, the wanted weight changes; otherwise
// the difference is a pending increase or a surplus.
//
// The first reading of a group that appears may be late, and the next one lower: within ReadLag a
// lower target takes back no more than what the group has added.
//
// If the result of a group's last request is unknown, each target up to the requested one is
// explained. A lower target leaves the difference as a pending increase. A higher target counts as
// wanted. A provider may show the results late, and one by one: a lower target, and each up to the
// requested one, is explained for ReadLag after the first reading.
func Reconcile(s api.PoolState, now time.Time, groups []Group, obey bool) (api.PoolState, Found) {
	account, known := AccountOf(s, groups), s.Wanted != nil
	var found Found
	added, resultUnknown := 0.0, false
	out := make(map[string]api.GroupState, len(groups))
	for _, g := range account.Groups {
		of, before := s.Groups[g.ID]
		if g.Unknown {
			if before { // otherwise it appears when it is read
				out[g.ID] = of
			}
			continue
		}
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
				of.Appeared = &api.AppearedGroup{Share: g.Share(), At: now}
			}
		case first || of.ResultUnknown && (g.Target < *before || g.Target <= unansweredTarget(of.Unanswered)):
		case *before != g.Target:
			found.Drift = append(found.Drift, api.Drift{Group: g.ID, LastTarget: *before, Found: g.Target})
			if obey {
				expected := g.Group
				expected.Target = *before
				var change int
				change, of.Appeared = limitAppeared(of.Appeared, g.Share()-groupAccount(s, expected).Share())
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
			of.Unanswered = unansweredAfter(of, now, g.Group, first)
			of.LastTarget = new(g.Target)
		}
		out[g.ID] = of
	}
	if !known {
		added -= s.Offset
	}
	for _, id := range slices.Sorted(maps.Keys(s.Groups)) {
		if _, there := out[id]; !there {
			found.Gone = append(found.Gone, id)
		}
	}
	s.Groups = out
	s.Wanted = new(account.Wanted + added)
	if resultUnknown && known {
		found.Unknown = AccountOf(s, groups).Surplus()
		*s.Wanted += found.Unknown
	}
	return s, found
}

// limitAppeared returns the part of a change of the group's share that counts in the wanted weight, and what
// is left of a: a decrease is at most what the group has added.
func limitAppeared(a *api.AppearedGroup, change int) (int, *api.AppearedGroup) {
	if a == nil || change >= 0 {
		return change, a
	}
	change = max(change, -a.Share)
	return change, &api.AppearedGroup{Share: a.Share + change, At: a.At}
}

// unansweredAfter returns the requested target that may still take effect after a reading of this
// group. It is the first reading after a request whose result is unknown if first is true. What terminations lowered since is no part
// of it: otherwise the next raise would launch these nodes once more.
func unansweredAfter(g api.GroupState, now time.Time, read Group, first bool) *api.UnansweredTarget {
	u := g.Unanswered
	if u != nil && now.Sub(u.Since) >= ReadLag {
		u = nil
	}
	if first && g.LastTarget != nil {
		u = &api.UnansweredTarget{Target: max(0, read.Min, max(*g.LastTarget, unansweredTarget(u))-Whole(read.Ended)), Since: now}
	}
	if unansweredTarget(u) <= read.Target {
		return nil
	}
	return u
}

// unansweredTarget returns the requested target, or 0 if it is missing.
func unansweredTarget(u *api.UnansweredTarget) int {
	if u == nil {
		return 0
	}
	return u.Target
}

// LargerState returns the state to save before the requests that lead from s to after. Whatever the
// results, its wanted weight and its surge are not less than the groups' targets hold for them.
func LargerState(s api.PoolState, after api.PoolState) api.PoolState {
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
