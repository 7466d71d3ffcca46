package resource

import (
	"encoding/json"
	"fmt"
	"math"
)

// Vector has a quantity for each kind, indexed by Kind.
type Vector [Count]float64

// Add returns v + w.
func (v Vector) Add(w Vector) Vector {
	for k := range v {
		v[k] += w[k]
	}
	return v
}

// Sub returns v - w.
func (v Vector) Sub(w Vector) Vector {
	for k := range v {
		v[k] -= w[k]
	}
	return v
}

// Scale returns v times f.
func (v Vector) Scale(f float64) Vector {
	for k := range v {
		v[k] *= f
	}
	return v
}

// Fits reports whether each kind of v exceeds that of room by at most Slack.
func (v Vector) Fits(room Vector) bool {
	for k := range v {
		if v[k] > room[k]+Slack {
			return false
		}
	}
	return true
}

// IsZero reports whether every value is zero.
func (v Vector) IsZero() bool { return v == Vector{} }

// Validate returns an error that names the first kind whose value is negative or not finite.
func (v Vector) Validate() error {
	for _, k := range Kinds() {
		if err := check(k, v[k]); err != nil {
			return err
		}
	}
	return nil
}

func check(k Kind, x float64) error {
	if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
		return fmt.Errorf("%s is %v: want a finite number of at least 0", k, x)
	}
	return nil
}

type vectorJSON struct {
	CPUs float64 `json:"cpus"`
	Mem  float64 `json:"mem"`
	Disk float64 `json:"disk"`
	GPUs float64 `json:"gpus"`
}

// MarshalJSON writes {"cpus": ..., "mem": ..., "disk": ..., "gpus": ...}.
func (v Vector) MarshalJSON() ([]byte, error) {
	return json.Marshal(vectorJSON{v[CPUs], v[Mem], v[Disk], v[GPUs]})
}

// UnmarshalJSON reads the format of MarshalJSON. An omitted kind is 0.
func (v *Vector) UnmarshalJSON(data []byte) error {
	var j vectorJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*v = Vector{j.CPUs, j.Mem, j.Disk, j.GPUs}
	return nil
}
