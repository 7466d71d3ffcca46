package api

import (
	"bytes"
	"encoding/json"
	"math"
)

// targetLimitsJSON is the JSON form of TargetLimits.
type targetLimitsJSON struct {
	Min       amount `json:"min_capacity"`
	Max       amount `json:"max_capacity"`
	MaxAdd    amount `json:"max_weight_to_add"`
	MaxRemove amount `json:"max_weight_to_remove"`
}

// Unlimited is the value of a limit that limits nothing. In JSON it is "inf".
const Unlimited = math.MaxFloat64

// Unbounded is the Max of a group without an upper bound.
const Unbounded = int(^uint(0) >> 1)

// amount is a number that JSON may also write as "inf": Unlimited.
type amount float64

func (a amount) MarshalJSON() ([]byte, error) {
	if a >= Unlimited {
		return []byte(`"inf"`), nil
	}
	return json.Marshal(float64(a))
}

func (a *amount) UnmarshalJSON(data []byte) error {
	if string(data) == `"inf"` {
		*a = Unlimited
		return nil
	}
	return json.Unmarshal(data, (*float64)(a))
}

// count is a whole number that JSON may also write as "inf": Unbounded.
type count int

func (c count) MarshalJSON() ([]byte, error) {
	if int(c) == Unbounded {
		return []byte(`"inf"`), nil
	}
	return json.Marshal(int(c))
}

func (c *count) UnmarshalJSON(data []byte) error {
	if string(data) == `"inf"` {
		*c = count(Unbounded)
		return nil
	}
	return json.Unmarshal(data, (*int)(c))
}

// strict decodes a value for an UnmarshalJSON method. An unknown key is an error.
func strict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

type pruneLimitsJSON struct {
	*plainPruneLimits
	MaxWeight *amount `json:"max_weight_to_remove"`
	MaxTasks  *count  `json:"max_tasks_to_kill"`
}

type groupTargetJSON struct {
	*plainGroupTarget
	Max *count `json:"max"`
}

type candidateJSON struct {
	*plainCandidate
	Weight *amount `json:"weight"`
}

// These types have no methods, so JSON encodes and decodes them by field.
type (
	plainPruneLimits PruneLimits
	plainGroupTarget GroupTarget
	plainCandidate   Candidate
)
