package core

import (
	"github.com/weirkeeper/weirkeeper/resource"
)

// MaxAmount bounds each amount of a node and of a pod. Larger ones count as this one.
const MaxAmount = 1 << 50

// mebibyte is the unit of memory and disk in messages.
const mebibyte = 1 << 20

// Vector has amounts of resources. Sums of integers are exact, in every order of the events.
type Vector struct {
	CPU  int64 // thousandths of a cpu
	Mem  int64 // bytes
	Disk int64 // bytes of ephemeral storage
	GPU  int64 // devices
}

func (v Vector) add(w Vector) Vector {
	return Vector{v.CPU + w.CPU, v.Mem + w.Mem, v.Disk + w.Disk, v.GPU + w.GPU}
}

func (v Vector) sub(w Vector) Vector {
	return Vector{v.CPU - w.CPU, v.Mem - w.Mem, v.Disk - w.Disk, v.GPU - w.GPU}
}

// clamped returns v with each amount between 0 and MaxAmount.
func (v Vector) clamped() Vector {
	in := func(x int64) int64 { return min(max(x, 0), MaxAmount) }
	return Vector{in(v.CPU), in(v.Mem), in(v.Disk), in(v.GPU)}
}

// Fits reports whether each amount is at most that of room.
func (v Vector) Fits(room Vector) bool {
	return v.CPU <= room.CPU && v.Mem <= room.Mem && v.Disk <= room.Disk && v.GPU <= room.GPU
}

// Resources returns the amounts in the units of messages: cpus, MB of memory, MB of disk, and gpus.
func (v Vector) Resources() resource.Vector {
	return resource.Vector{
		resource.CPUs: float64(v.CPU) / 1000, resource.Mem: float64(v.Mem) / mebibyte,
		resource.Disk: float64(v.Disk) / mebibyte, resource.GPUs: float64(v.GPU),
	}
}
