package api

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// MaxPorts bounds AppVersion.Ports.
const MaxPorts = 16

// Port is a TCP port that an instance needs on its machine. The agent sets its number in the environment of the command:
// PORT for the first one, and Variable for each.
type Port struct {
	Name string     `json:"name"` // letters, digits, - and _
	Port PortNumber `json:"port"`
}

// Variable returns the name of the environment variable with the number: PORT_ADMIN_UI for admin-ui.
func (p Port) Variable() string {
	return "PORT_" + strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(p.Name))
}

// PortNumber is a fixed port, or AutoPort. In JSON, AutoPort is "auto".
type PortNumber int

// AutoPort is a port that the agent chooses: it is free on the machine.
const AutoPort PortNumber = -1

const autoText = "auto"

func (n PortNumber) String() string {
	if n == AutoPort {
		return autoText
	}
	return strconv.Itoa(int(n))
}

// MarshalJSON implements json.Marshaler.
func (n PortNumber) MarshalJSON() ([]byte, error) {
	if n == AutoPort {
		return json.Marshal(autoText)
	}
	return json.Marshal(int(n))
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *PortNumber) UnmarshalJSON(data []byte) error {
	var text string
	var number int
	switch {
	case string(data) == "null":
	case json.Unmarshal(data, &text) == nil && text == autoText:
		*n = AutoPort
	case json.Unmarshal(data, &number) != nil || number < 0:
		return fmt.Errorf("port %.40s: want a number above 0, or %q", data, autoText)
	default:
		*n = PortNumber(number)
	}
	return nil
}

// FixedPorts returns the ports of the version that no other instance on a node may have.
func (v AppVersion) FixedPorts() (fixed []int) {
	for _, p := range v.Ports {
		if p.Port != AutoPort {
			fixed = append(fixed, int(p.Port))
		}
	}
	return fixed
}

// PortRef is a port of an instance, by its number or by the name of a Port. In JSON it is a number or a text.
type PortRef struct {
	Number int
	Name   string // empty: Number counts
}

func (p PortRef) String() string {
	if p.Name != "" {
		return p.Name
	}
	return strconv.Itoa(p.Number)
}

// MarshalJSON implements json.Marshaler.
func (p PortRef) MarshalJSON() ([]byte, error) {
	if p.Name != "" {
		return json.Marshal(p.Name)
	}
	return json.Marshal(p.Number)
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *PortRef) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	var ref PortRef
	if json.Unmarshal(data, &ref.Name) != nil && json.Unmarshal(data, &ref.Number) != nil {
		return fmt.Errorf("port %.40s: want a number, or the name of a port", data)
	}
	*p = ref
	return nil
}
