package api

import (
	"errors"
	"fmt"
	"math"

	"github.com/weirkeeper/weirkeeper/resource"
)

// Headroom is a number of places of one size that are to stay free. The number is max(Count, Percent), and at most as many as
// Limits hold.
type Headroom struct {
	Name      string          `json:"name"` // unique in the pool
	App       string          `json:"app,omitempty"`
	Resources resource.Vector `json:"resources,omitzero"` // of one place; zero: the size and the limits of a copy of App
	Count     int             `json:"count,omitempty"`    // 0 to MaxHeadroom
	// Percent is a share of the desired copies of App. Without App it is a share of what all desired copies of the pool take.
	Percent float64          `json:"percent,omitempty"`
	Limits  resource.Request `json:"limits,omitzero"` // the most that all places take; a kind that it lacks has no limit
	Group   string           `json:"group,omitempty"` // the places are on machines of this group; empty: of any
}

// Wanted returns the number of places. footprint is the size of one place, copies is the number of desired copies of the app, and
// held is what all desired copies of the pool take.
func (h Headroom) Wanted(footprint resource.Vector, copies int, held resource.Vector) int {
	share := float64(copies)
	if h.App == "" {
		share = 0
		for k, x := range footprint {
			if x > 0 {
				share = max(share, held[k]/x)
			}
		}
	}
	n := max(float64(h.Count), resource.Ceil(share*h.Percent/100))
	for k, x := range footprint {
		if most, limited := h.Limits.Get(resource.Kind(k)); limited && x > 0 {
			n = min(n, resource.Floor(most/x))
		}
	}
	return int(min(n, MaxHeadroom))
}

// PlacesHeadroom is how much of a Headroom exists: Wanted = Free + Ordered + Short.
type PlacesHeadroom struct {
	Name      string          `json:"name"`
	Resources resource.Vector `json:"resources"` // of one place
	Wanted    int             `json:"wanted"`
	Free      int             `json:"free"`            // on nodes that exist
	Ordered   int             `json:"ordered"`         // on machines of Coming, New and Probe
	Short     int             `json:"short,omitempty"` // no group may get a machine for them now
	Why       string          `json:"why,omitempty"`   // for people: why some are short, or why the number is unknown
}

// Text returns one line about the headroom: "headroom spare: 1 of 3 places free, 2 ordered".
func (h PlacesHeadroom) Text() string {
	text := fmt.Sprintf("headroom %s: %d of %d places free", h.Name, h.Free, h.Wanted)
	if h.Ordered > 0 {
		text += fmt.Sprintf(", %d ordered", h.Ordered)
	}
	if h.Short > 0 {
		text += fmt.Sprintf(", no room for %d", h.Short)
	}
	if h.Why != "" {
		text += ": " + h.Why
	}
	return text
}

func (h Headroom) validate() error {
	if err := placesName(h.Name); err != nil {
		return fmt.Errorf("name: %w", err)
	}
	if err := h.Resources.Validate(); err != nil {
		return fmt.Errorf("resources: %w", err)
	}
	if h.App == "" && h.Resources.IsZero() {
		return errors.New("resources and app are missing: want one of them")
	}
	if !(h.Percent >= 0) || math.IsInf(h.Percent, 0) {
		return fmt.Errorf("percent is %v: want a finite number of at least 0", h.Percent)
	}
	return errors.Join(placesCount("count", h.Count, 0, MaxHeadroom), placesText("app", h.App), placesText("group", h.Group))
}

// validateHeadroom checks the free places. A scheduler without this part returns none.
func (p Places) validateHeadroom(q PlacesQuestion) error {
	if len(p.Headroom) != 0 && len(p.Headroom) != len(q.Headroom) {
		return fmt.Errorf("headroom: %d entries, want %d", len(p.Headroom), len(q.Headroom))
	}
	for i, h := range p.Headroom {
		field := fmt.Sprintf("headroom[%d]", i)
		if h.Name != q.Headroom[i].Name {
			return fmt.Errorf("%s.name is %.80q: want %.80q", field, h.Name, q.Headroom[i].Name)
		}
		if err := h.Resources.Validate(); err != nil {
			return fmt.Errorf("%s.resources: %w", field, err)
		}
		if err := errors.Join(placesCount(field+".free", h.Free, 0, MaxHeadroom), placesCount(field+".ordered", h.Ordered, 0, MaxHeadroom),
			placesCount(field+".short", h.Short, 0, MaxHeadroom), placesText(field+".why", h.Why)); err != nil {
			return err
		}
		if sum := h.Free + h.Ordered + h.Short; h.Wanted != sum {
			return fmt.Errorf("%s.wanted is %d: want %d, the sum of free, ordered and short", field, h.Wanted, sum)
		}
	}
	return nil
}
