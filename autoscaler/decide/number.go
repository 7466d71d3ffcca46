package decide

import (
	"encoding/json"
	"math"

	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
)

// Unlimited is the value of a limit that limits nothing. In JSON it is "inf".
const Unlimited = math.MaxFloat64

// bound is a number that JSON may also write as "inf": Unlimited.
type bound float64

func (a bound) MarshalJSON() ([]byte, error) {
	if a >= Unlimited {
		return []byte(`"inf"`), nil
	}
	return json.Marshal(float64(a))
}

func (a *bound) UnmarshalJSON(data []byte) error {
	if string(data) == `"inf"` {
		*a = Unlimited
		return nil
	}
	return json.Unmarshal(data, (*float64)(a))
}

// limitsJSON is the JSON form of Limits.
type limitsJSON struct {
	Min       bound `json:"min_capacity"`
	Max       bound `json:"max_capacity"`
	MaxAdd    bound `json:"max_weight_to_add"`
	MaxRemove bound `json:"max_weight_to_remove"`
}

// MarshalJSON writes "inf" for Unlimited.
func (l Limits) MarshalJSON() ([]byte, error) {
	return json.Marshal(limitsJSON{bound(l.Min), bound(l.Max), bound(l.MaxAdd), bound(l.MaxRemove)})
}

// UnmarshalJSON reads numbers and "inf". A missing key keeps its value. An unknown key is an error.
func (l *Limits) UnmarshalJSON(data []byte) error {
	read := limitsJSON{bound(l.Min), bound(l.Max), bound(l.MaxAdd), bound(l.MaxRemove)}
	if err := strictjson.Decode(data, &read); err != nil {
		return err
	}
	*l = Limits{float64(read.Min), float64(read.Max), float64(read.MaxAdd), float64(read.MaxRemove)}
	return nil
}
