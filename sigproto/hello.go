package sigproto

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"
)

// Hello is the first message of a connection.
type Hello struct {
	// Parameters are the signal's own, of JSON types. Received numbers are float64. The keys "cluster" and "pool"
	// belong to the two fields below.
	Parameters map[string]any
	Cluster    string
	Pool       string
	// Setpoint is the share of its capacity that the pool should use, above 0: capacity = request / setpoint. 0: it was not
	// sent.
	Setpoint float64
	// Launch is the time in which 95 of 100 new machines of the pool join it, as it was measured. 0: it was not sent.
	Launch time.Duration
	// Unknown holds the unknown keys of a received hello. It is not sent.
	Unknown []string
}

type helloJSON struct {
	Parameters map[string]any `json:"parameters"`
	Cluster    string         `json:"cluster"`
	Pool       string         `json:"pool"`
	Setpoint   float64        `json:"setpoint,omitempty"`
	Launch     float64        `json:"launch_seconds,omitempty"`
}

// encode returns the hello as JSON. The parameters must be of JSON types.
func (h Hello) encode() ([]byte, error) {
	parameters := make(map[string]any, len(h.Parameters)+2)
	maps.Copy(parameters, h.Parameters)
	parameters["cluster"], parameters["pool"] = h.Cluster, h.Pool
	data, err := json.Marshal(helloJSON{Parameters: parameters, Cluster: h.Cluster, Pool: h.Pool, Setpoint: h.Setpoint, Launch: h.Launch.Seconds()})
	if err != nil {
		return nil, fmt.Errorf("encode the parameters: %w", err)
	}
	if len(data) > maxHello {
		return nil, fmt.Errorf("%w: the parameters take %d bytes, limit %d", ErrTooLarge, len(data), maxHello)
	}
	return data, nil
}

// parseHello decodes a complete hello. Cluster and pool may be among the parameters, which take precedence, or at the
// top level.
func parseHello(data []byte) (Hello, error) {
	var out Hello
	err := whole(data, func(dec *json.Decoder, key string) error {
		switch key {
		case "parameters":
			return dec.Decode(&out.Parameters)
		case "cluster":
			return dec.Decode(&out.Cluster)
		case "pool":
			return dec.Decode(&out.Pool)
		case "setpoint":
			return decodeAbove0(dec, &out.Setpoint)
		case "launch_seconds":
			return decodeLaunch(dec, &out.Launch)
		}
		out.Unknown = append(out.Unknown, key)
		return skip(dec)
	})
	if err != nil {
		return Hello{}, err
	}
	if err := out.take("cluster", &out.Cluster); err != nil {
		return Hello{}, err
	}
	if err := out.take("pool", &out.Pool); err != nil {
		return Hello{}, err
	}
	return out, nil
}

func decodeAbove0(dec *json.Decoder, into *float64) error {
	if err := dec.Decode(into); err != nil {
		return err
	}
	if *into < 0 {
		return fmt.Errorf("is %v, want a number above 0", *into)
	}
	return nil
}

// longestLaunch bounds a time of the hello.
const longestLaunch = 24 * time.Hour

func decodeLaunch(dec *json.Decoder, into *time.Duration) error {
	var seconds float64
	if err := decodeAbove0(dec, &seconds); err != nil {
		return err
	}
	if seconds > longestLaunch.Seconds() {
		return fmt.Errorf("is %v, want at most %v", seconds, longestLaunch.Seconds())
	}
	*into = time.Duration(seconds * float64(time.Second))
	return nil
}

// take moves a string from the parameters to its field.
func (h *Hello) take(key string, field *string) error {
	value, ok := h.Parameters[key]
	if !ok {
		return nil
	}
	delete(h.Parameters, key)
	if value == nil {
		return nil
	}
	text, ok := value.(string)
	if !ok {
		return fieldError("parameters."+key, fmt.Errorf("is %v, want a string", value))
	}
	*field = text
	return nil
}
