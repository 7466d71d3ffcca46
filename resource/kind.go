package resource

import "fmt"

// Kind names one of the four resources. Every listing has this order. In a tie of a decision the
// first largest kind wins.
type Kind uint8

const (
	CPUs Kind = iota // shares of a core
	Mem              // megabytes
	Disk             // megabytes
	GPUs             // devices
)

// kindNames is indexed by Kind.
var kindNames = [...]string{CPUs: "cpus", Mem: "mem", Disk: "disk", GPUs: "gpus"}

// Count is the number of kinds; a Vector has that many values.
const Count = len(kindNames)

// Kinds returns all kinds in their order.
func Kinds() [Count]Kind { return [Count]Kind{CPUs, Mem, Disk, GPUs} }

// String returns the name as in configuration, wire and metrics.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// ParseKind returns the kind with that name.
func ParseKind(name string) (Kind, error) {
	for k, n := range kindNames {
		if n == name {
			return Kind(k), nil
		}
	}
	return 0, fmt.Errorf("resource %q: want one of cpus, mem, disk, gpus", name)
}

// MarshalText makes a Kind a JSON object key and a YAML scalar.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (k *Kind) UnmarshalText(text []byte) error {
	parsed, err := ParseKind(string(text))
	if err != nil {
		return err
	}
	*k = parsed
	return nil
}
