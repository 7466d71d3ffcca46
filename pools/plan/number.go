package plan

import (
	"encoding/json"
	"math"

	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
	"github.com/weirkeeper/weirkeeper/pools"
)

// amount is a number that JSON may also write as "inf": unlimited.
type amount float64

func (a amount) MarshalJSON() ([]byte, error) {
	if a >= math.MaxFloat64 {
		return []byte(`"inf"`), nil
	}
	return json.Marshal(float64(a))
}

func (a *amount) UnmarshalJSON(data []byte) error {
	if string(data) == `"inf"` {
		*a = math.MaxFloat64
		return nil
	}
	return json.Unmarshal(data, (*float64)(a))
}

// count is a whole number that JSON may also write as "inf": pools.Unlimited.
type count int

func (c count) MarshalJSON() ([]byte, error) {
	if int(c) == pools.Unlimited {
		return []byte(`"inf"`), nil
	}
	return json.Marshal(int(c))
}

func (c *count) UnmarshalJSON(data []byte) error {
	if string(data) == `"inf"` {
		*c = count(pools.Unlimited)
		return nil
	}
	return json.Unmarshal(data, (*int)(c))
}

// These types have no methods, so JSON encodes and decodes them by field.
type (
	plainLimits    Limits
	plainGroup     GroupTarget
	plainCandidate Candidate
)

type limitsJSON struct {
	*plainLimits
	MaxWeight *amount `json:"max_weight_to_remove"`
	MaxTasks  *count  `json:"max_tasks_to_kill"`
}

func (l *Limits) json() *limitsJSON {
	return &limitsJSON{(*plainLimits)(l), (*amount)(&l.MaxWeight), (*count)(&l.MaxTasks)}
}

// MarshalJSON writes "inf" for an unlimited value.
func (l Limits) MarshalJSON() ([]byte, error) { return json.Marshal(l.json()) }

// UnmarshalJSON reads numbers and "inf".
func (l *Limits) UnmarshalJSON(data []byte) error { return strictjson.Decode(data, l.json()) }

type groupJSON struct {
	*plainGroup
	Max *count `json:"max"`
}

func (g *GroupTarget) json() *groupJSON { return &groupJSON{(*plainGroup)(g), (*count)(&g.Max)} }

// MarshalJSON writes a Max of pools.Unlimited as "inf".
func (g GroupTarget) MarshalJSON() ([]byte, error) { return json.Marshal(g.json()) }

// UnmarshalJSON reads a Max that is a number or "inf".
func (g *GroupTarget) UnmarshalJSON(data []byte) error { return strictjson.Decode(data, g.json()) }

type candidateJSON struct {
	*plainCandidate
	Weight *amount `json:"weight"`
}

// UnmarshalJSON reads a Weight that is a number or "inf". MarshalJSON writes only numbers, because
// there are many candidates.
func (c *Candidate) UnmarshalJSON(data []byte) error {
	return strictjson.Decode(data, &candidateJSON{(*plainCandidate)(c), (*amount)(&c.Weight)})
}
