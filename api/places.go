package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weirkeeper/weirkeeper/resource"
)

// Bounds of a PlacesQuestion and of Places.
const (
	MaxPlacesBytes = 1 << 20 // of an answer, in JSON
	MaxPlacesNodes = 10_000  // in each list of a question
	MaxPlacesKinds = 1000    // of a question
	MaxPlacesLeave = 200     // nodes in Places.Leave
	MaxPlacesStay  = 20      // nodes in Places.Stay
	MaxPlacesApps  = 100     // entries in Places.Short, and in Places.Never
	MaxPlacesText  = 300     // bytes of a text for people, and of a name
	MaxHeadrooms   = 20      // entries in PlacesQuestion.Headroom
	MaxHeadroom    = 10_000  // free places of one of them
	MaxPlacesMoves = 5000    // in Places.Moves

	MaxNeverApps = 1000 // entries in NeverPlaced.Apps

	maxPlacesCount = 10_000_000 // copies, and machines
)

// PlacesQuestion requests from the scheduler of a pool where its copies fit. Each node is in at most one of the lists.
// Nodes in no list stay: they keep their copies and take more.
type PlacesQuestion struct {
	Kinds []PlacesKind `json:"kinds,omitempty"` // of machines that do not exist; one for each group
	Gone  []string     `json:"gone,omitempty"`  // nodes that leave: their copies need a place, and they offer none
	Aside []string     `json:"aside,omitempty"` // nodes that keep their copies and take no more, such as unfit ones
	Leave []string     `json:"leave,omitempty"` // candidates to remove; the first ones are preferred
	Most  int          `json:"most,omitempty"`  // at most so many of the candidates are wanted; 0 to MaxPlacesLeave
	// Headroom are the places that are to stay free.
	Headroom []Headroom `json:"headroom,omitempty"`
	Moves    bool       `json:"moves,omitempty"` // list where the copies of Gone would go
}

// PlacesKind is a kind of machine that the provider can add.
type PlacesKind struct {
	Group     string          `json:"group"`             // the machine is added by a larger target of this group
	Resources resource.Vector `json:"resources"`         // that one machine offers to copies
	Unknown   bool            `json:"unknown,omitempty"` // Resources are unknown: one machine shows them
	Weight    float64         `json:"weight"`            // of one machine, above 0
	Slots     int             `json:"slots,omitempty"`   // bound on its tasks, as its nodes report; 0: none
	Coming    int             `json:"coming,omitempty"`  // machines that are ordered and have not joined
	Room      int             `json:"room,omitempty"`    // further machines that the group may get now
	Level     float64         `json:"level,omitempty"`   // weight of the group: of equal kinds, the lowest level goes first
	Why       string          `json:"why,omitempty"`     // why Room is not larger, after the name of the group: "is at its maximum"
}

// Places is the answer to a PlacesQuestion. It describes the pool at one moment, without any change. Each copy that waits
// is counted once: in Coming, New, Probe or Short.
type Places struct {
	// Nodes is the number of nodes with facts.
	Nodes int `json:"nodes"`
	// Waiting is the number of copies without a place on the nodes that exist, also copies on Gone. It has no copies of Never.
	Waiting int `json:"waiting"`
	// Coming, New and Probe are the machines that these copies need, in order of need: ordered ones, further ones, and one of a
	// kind of unknown size. Each has a group once.
	Coming []PlacesNeed `json:"coming,omitempty"`
	New    []PlacesNeed `json:"new,omitempty"`
	Probe  []PlacesNeed `json:"probe,omitempty"`
	// Short are copies that a machine could hold, but no group may get it now. ShortCopies counts all of them.
	Short       []PlacesApp `json:"short,omitempty"`
	ShortCopies int         `json:"short_copies,omitempty"`
	// Never are copies that no node and no kind can ever hold. NeverCopies counts all of them.
	Never       []PlacesApp `json:"never,omitempty"`
	NeverCopies int         `json:"never_copies,omitempty"`
	// Unplaceable is the sum of the footprints of Never, and Held that of all other desired copies.
	Unplaceable resource.Vector `json:"unplaceable,omitzero"`
	Held        resource.Vector `json:"held,omitzero"`
	// Leave are candidates. ANY SUBSET of them can be emptied at the same time: each of their copies has a place on a node
	// that is neither in Leave nor in Gone.
	Leave []string `json:"leave,omitempty"`
	// Stay are the first candidates that cannot be emptied. Stays counts all of them. The other candidates were not examined.
	Stay  []PlacesStay `json:"stay,omitempty"`
	Stays int          `json:"stays,omitempty"`
	// Back are nodes of Gone with a copy that has no other place.
	Back []string `json:"back,omitempty"`
	// Headroom has an entry for each of the question, in its order. Free places are no copies, and count in none of the numbers
	// of copies.
	Headroom []PlacesHeadroom `json:"headroom,omitempty"`
	// Moves are copies of Gone with their new places, if the question wants them. MovesCount counts all of them.
	Moves      []PlacesMove `json:"moves,omitempty"`
	MovesCount int          `json:"moves_count,omitempty"`
}

// PlacesMove is a copy that loses its node. One of To, Group and Why is set.
type PlacesMove struct {
	Copy  string `json:"copy"` // "web/3"
	From  string `json:"from"`
	To    string `json:"to,omitempty"`    // the node with room
	Group string `json:"group,omitempty"` // it waits for a machine of this group
	Why   string `json:"why,omitempty"`   // why it has no place, for people
}

// Machines returns New and Probe: the machines that copies need in addition, in order of need.
func (p Places) Machines() []PlacesNeed { return slices.Concat(p.New, p.Probe) }

// PlacesNeed is a number of machines of one group that copies need.
type PlacesNeed struct {
	Group  string  `json:"group"`
	Nodes  int     `json:"nodes"`            // above 0
	Weight float64 `json:"weight"`           // of all these machines
	Copies int     `json:"copies"`           // that they hold; above 0, or there are Places
	Places int     `json:"places,omitempty"` // free places of Places.Headroom that they hold
	First  string  `json:"first"`            // the first of these copies, "web/3", or the headroom of the first place
}

// PlacesApp are copies of one app that have no place, for one reason.
type PlacesApp struct {
	App       string          `json:"app"`
	Copies    int             `json:"copies"`    // above 0
	Footprint resource.Vector `json:"footprint"` // of one copy
	Why       string          `json:"why"`       // for people
}

// NeverText returns one line about copies of Places.Never.
func (a PlacesApp) NeverText() string {
	return fmt.Sprintf("no machine of the pool can hold a copy of %s: %s", a.App, a.Why)
}

// NeverPlaced lists all copies of a pool that wait, and that no node and no kind can ever hold. The scheduler publishes it in
// each heartbeat period, after the first PlacesQuestion. The harmonizer leaves these copies out of the expected resources.
type NeverPlaced struct {
	Pool string      `json:"pool"`
	Apps []PlacesApp `json:"apps"` // each app once, at most MaxNeverApps
}

// PlacesStay is a candidate that cannot be emptied.
type PlacesStay struct {
	Node string `json:"node"`
	Why  string `json:"why"` // for people: "web/3 (cpus=0.6 mem=64) has no other place"
}

// Validate returns an error that names the first invalid field of the question.
func (q PlacesQuestion) Validate() error {
	if len(q.Kinds) > MaxPlacesKinds {
		return fmt.Errorf("kinds: %d of them, at most %d are allowed", len(q.Kinds), MaxPlacesKinds)
	}
	groups := make(map[string]bool, len(q.Kinds))
	for i, k := range q.Kinds {
		if err := k.validate(); err != nil {
			return fmt.Errorf("kinds[%d]: %w", i, err)
		}
		if groups[k.Group] {
			return fmt.Errorf("kinds[%d].group: %.80q has another kind", i, k.Group)
		}
		groups[k.Group] = true
	}
	in := map[string]string{}
	for _, list := range []struct {
		name  string
		nodes []string
	}{{"gone", q.Gone}, {"aside", q.Aside}, {"leave", q.Leave}} {
		if len(list.nodes) > MaxPlacesNodes {
			return fmt.Errorf("%s: %d nodes, at most %d are allowed", list.name, len(list.nodes), MaxPlacesNodes)
		}
		for i, node := range list.nodes {
			if err := placesName(node); err != nil {
				return fmt.Errorf("%s[%d]: %w", list.name, i, err)
			}
			if other := in[node]; other != "" {
				return fmt.Errorf("%s[%d]: node %.80q is already in %s", list.name, i, node, other)
			}
			in[node] = list.name
		}
	}
	if len(q.Headroom) > MaxHeadrooms {
		return fmt.Errorf("headroom: %d entries, at most %d are allowed", len(q.Headroom), MaxHeadrooms)
	}
	for i, h := range q.Headroom {
		if err := h.validate(); err != nil {
			return fmt.Errorf("headroom[%d]: %w", i, err)
		}
	}
	return placesCount("most", q.Most, 0, MaxPlacesLeave)
}

func (k PlacesKind) validate() error {
	if err := placesName(k.Group); err != nil {
		return fmt.Errorf("group: %w", err)
	}
	if err := k.Resources.Validate(); err != nil {
		return fmt.Errorf("resources: %w", err)
	}
	if !(k.Weight > 0) || k.Weight > math.MaxInt32 {
		return fmt.Errorf("weight is %v: want a finite number above 0", k.Weight)
	}
	if math.IsNaN(k.Level) || math.IsInf(k.Level, 0) {
		return fmt.Errorf("level is %v: want a finite number", k.Level)
	}
	return errors.Join(placesCount("slots", k.Slots, 0, maxPlacesCount), placesCount("coming", k.Coming, 0, maxPlacesCount), placesCount("room", k.Room, 0, maxPlacesCount), placesText("why", k.Why))
}

// DecodePlaces reads an answer to the question q, and validates it. It ignores unknown keys.
func DecodePlaces(data []byte, q PlacesQuestion) (Places, error) {
	if len(data) > MaxPlacesBytes {
		return Places{}, fmt.Errorf("%d bytes, at most %d are allowed", len(data), MaxPlacesBytes)
	}
	var p Places
	if err := json.Unmarshal(data, &p); err != nil {
		return Places{}, err
	}
	if err := p.Validate(q); err != nil {
		return Places{}, err
	}
	return p, nil
}

// Validate returns an error that names the first field of p that is no answer to q.
func (p Places) Validate(q PlacesQuestion) error {
	for _, c := range []struct {
		name  string
		value int
		most  int
	}{
		{"nodes", p.Nodes, maxPlacesCount}, {"waiting", p.Waiting, maxPlacesCount},
		{"short_copies", p.ShortCopies, maxPlacesCount}, {"never_copies", p.NeverCopies, maxPlacesCount}, {"moves_count", p.MovesCount, maxPlacesCount}, {"stays", p.Stays, len(q.Leave)},
	} {
		if err := placesCount(c.name, c.value, 0, c.most); err != nil {
			return err
		}
	}
	for _, v := range []struct {
		name string
		sum  resource.Vector
	}{{"unplaceable", p.Unplaceable}, {"held", p.Held}} {
		if err := v.sum.Validate(); err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
	}
	needed, err := p.validateNeeds(q)
	if err != nil {
		return err
	}
	if err := validateApps("short", p.Short, p.ShortCopies); err != nil {
		return err
	}
	if err := validateApps("never", p.Never, p.NeverCopies); err != nil {
		return err
	}
	if needed+p.ShortCopies != p.Waiting {
		return fmt.Errorf("waiting is %d: want %d, the copies of coming, new, probe and short_copies", p.Waiting, needed+p.ShortCopies)
	}
	if err := p.validateHeadroom(q); err != nil {
		return err
	}
	return p.validateNodes(q)
}

// validateNeeds checks the needed machines, and returns the number of their copies.
func (p Places) validateNeeds(q PlacesQuestion) (copies int, err error) {
	kinds := make(map[string]PlacesKind, len(q.Kinds))
	for _, k := range q.Kinds {
		kinds[k.Group] = k
	}
	for _, list := range []struct {
		name  string
		needs []PlacesNeed
		most  func(PlacesKind) int
	}{
		{"coming", p.Coming, func(k PlacesKind) int { return k.Coming }},
		{"new", p.New, func(k PlacesKind) int { return k.Room }},
		{"probe", p.Probe, func(k PlacesKind) int {
			if !k.Unknown {
				return 0
			}
			return min(k.Room, 1)
		}},
	} {
		seen := map[string]bool{}
		for i, n := range list.needs {
			field := fmt.Sprintf("%s[%d]", list.name, i)
			k, ok := kinds[n.Group]
			if !ok || seen[n.Group] {
				return 0, fmt.Errorf("%s.group: %.80q is not the group of a kind, or occurs twice", field, n.Group)
			}
			seen[n.Group] = true
			if err := errors.Join(placesCount(field+".nodes", n.Nodes, 1, list.most(k)), placesCount(field+".copies", n.Copies, max(0, 1-n.Places), maxPlacesCount),
				placesCount(field+".places", n.Places, 0, MaxHeadrooms*MaxHeadroom),
				placesText(field+".first", n.First)); err != nil {
				return 0, err
			}
			if want := float64(n.Nodes) * k.Weight; !(math.Abs(n.Weight-want) <= resource.Slack*max(1, want)) {
				return 0, fmt.Errorf("%s.weight is %v: want %v, that of %d machines", field, n.Weight, want, n.Nodes)
			}
			copies += n.Copies
		}
	}
	return copies, nil
}

// Validate returns an error that names the first invalid field.
func (n NeverPlaced) Validate() error {
	if len(n.Apps) > MaxNeverApps {
		return fmt.Errorf("apps: %d entries, at most %d are allowed", len(n.Apps), MaxNeverApps)
	}
	for i, a := range n.Apps {
		if err := a.validate(fmt.Sprintf("apps[%d]", i)); err != nil {
			return err
		}
	}
	return nil
}

func (a PlacesApp) validate(field string) error {
	if a.App == "" {
		return fmt.Errorf("%s.app is empty", field)
	}
	if err := a.Footprint.Validate(); err != nil {
		return fmt.Errorf("%s.footprint: %w", field, err)
	}
	return errors.Join(placesText(field+".app", a.App), placesText(field+".why", a.Why), placesCount(field+".copies", a.Copies, 1, maxPlacesCount))
}

// validateApps checks a list of copies without a place. total counts these copies and those that are not listed.
func validateApps(name string, apps []PlacesApp, total int) error {
	if len(apps) > MaxPlacesApps {
		return fmt.Errorf("%s: %d entries, at most %d are allowed", name, len(apps), MaxPlacesApps)
	}
	listed := 0
	for i, a := range apps {
		if err := a.validate(fmt.Sprintf("%s[%d]", name, i)); err != nil {
			return err
		}
		listed += a.Copies
	}
	if listed > total || len(apps) == 0 && total > 0 {
		return fmt.Errorf("%s_copies is %d: want at least the %d copies of %s, and 0 only without any", name, total, listed, name)
	}
	return nil
}

func (p Places) validateNodes(q PlacesQuestion) error {
	if len(p.Leave) > q.Most {
		return fmt.Errorf("leave: %d nodes, at most %d are wanted", len(p.Leave), q.Most)
	}
	if len(p.Stay) > min(MaxPlacesStay, p.Stays) || p.Stays > len(q.Leave)-len(p.Leave) {
		return fmt.Errorf("stay: %d nodes of %d, at most %d are allowed, of %d candidates", len(p.Stay), p.Stays, MaxPlacesStay, len(q.Leave)-len(p.Leave))
	}
	candidates := placesSet(q.Leave)
	for i, node := range p.Leave {
		if !candidates[node] {
			return fmt.Errorf("leave[%d]: %.80q is not a candidate, or occurs twice", i, node)
		}
		delete(candidates, node)
	}
	for i, s := range p.Stay {
		if !candidates[s.Node] {
			return fmt.Errorf("stay[%d].node: %.80q is not a candidate, or occurs twice", i, s.Node)
		}
		delete(candidates, s.Node)
		if err := placesText(fmt.Sprintf("stay[%d].why", i), s.Why); err != nil {
			return err
		}
	}
	if len(p.Moves) > min(MaxPlacesMoves, p.MovesCount) {
		return fmt.Errorf("moves: %d of %d, at most %d are allowed", len(p.Moves), p.MovesCount, MaxPlacesMoves)
	}
	for i, m := range p.Moves {
		for _, text := range []string{m.Copy, m.From, m.To, m.Group, m.Why} {
			if err := placesText(fmt.Sprintf("moves[%d]", i), text); err != nil {
				return err
			}
		}
	}
	gone := placesSet(q.Gone)
	for i, node := range p.Back {
		if !gone[node] {
			return fmt.Errorf("back[%d]: %.80q is not in gone, or occurs twice", i, node)
		}
		delete(gone, node)
	}
	return nil
}

func placesSet(nodes []string) map[string]bool {
	all := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		all[n] = true
	}
	return all
}

func placesName(name string) error {
	if name == "" || len(name) > MaxPlacesText {
		return fmt.Errorf("%.80q: want a name of 1 to %d bytes", name, MaxPlacesText)
	}
	return nil
}

func placesText(field, text string) error {
	if len(text) > MaxPlacesText {
		return fmt.Errorf("%s: %d bytes, at most %d are allowed", field, len(text), MaxPlacesText)
	}
	return nil
}

func placesCount(field string, n, least, most int) error {
	if n < least || n > most {
		return fmt.Errorf("%s is %d: want %d to %d", field, n, least, most)
	}
	return nil
}
