package grpc

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/grpc/externalgrpc"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Labels of nodes, and names of resources, as Kubernetes has them.
const (
	typeLabel    = "node.kubernetes.io/instance-type"
	oldTypeLabel = "beta.kubernetes.io/instance-type"
	zoneLabel    = "topology.kubernetes.io/zone"
	oldZoneLabel = "failure-domain.beta.kubernetes.io/zone"
	cpuName      = "cpu"
	memoryName   = "memory"
	diskName     = "ephemeral-storage"
	gpuSuffix    = "/gpu" // nvidia.com/gpu, amd.com/gpu
)

const (
	mebibyte = 1 << 20
	// anyDisk is the disk of a machine whose template has no disk: it is unknown.
	anyDisk  = 1 << 40
	maxLabel = 63 // bytes of the value of a label
	// maxQuantity bounds a quantity, so that no sum overflows.
	maxQuantity = 1 << 60
)

// template is the machine that a larger target launches.
type template struct {
	market pools.Market
	// new is what a new machine offers to copies, and whole what it has. Zero: unknown.
	new, whole resource.Vector
}

// templateOf decodes an answer. Of a server of each version, exactly one field has the node. ok is false for an answer without a node.
func templateOf(answer *externalgrpc.NodeGroupTemplateNodeInfoResponse, group string) (t template, ok bool, err error) {
	data := answer.GetNodeBytes()
	if len(data) == 0 {
		data = answer.GetNodeInfo()
	}
	if len(data) == 0 {
		return template{}, false, nil
	}
	var node externalgrpc.Node
	if err := proto.Unmarshal(data, &node); err != nil {
		return template{}, false, errors.New("the template is no v1.Node")
	}
	labels := node.GetMetadata().GetLabels()
	t.market.InstanceType = label(labels, typeLabel, oldTypeLabel)
	if t.market.InstanceType == "" {
		t.market.InstanceType = group
	}
	t.market.Zone = label(labels, zoneLabel, oldZoneLabel)
	if t.whole, err = vector(node.GetStatus().GetCapacity()); err != nil {
		return template{}, false, err
	}
	if t.new, err = vector(node.GetStatus().GetAllocatable()); err != nil {
		return template{}, false, err
	}
	if t.new.IsZero() {
		t.new = t.whole
	}
	if t.whole.IsZero() {
		t.whole = t.new
	}
	return t, true, nil
}

// label returns the first of these labels with a valid value.
func label(labels map[string]string, names ...string) string {
	for _, name := range names {
		if v := labels[name]; v != "" && len(v) <= maxLabel && v == prose.Line(v, maxCause) {
			return v
		}
	}
	return ""
}

// vector returns the resources of a node. Without cpu or memory they are unknown.
func vector(of map[string]*externalgrpc.Quantity) (v resource.Vector, err error) {
	amount := func(name string) (x float64) {
		if q, ok := of[name]; ok && err == nil {
			if x, err = quantity(q.GetString_()); err != nil {
				err = fmt.Errorf("%s of the template: %w", name, err)
			}
		}
		return x
	}
	v[resource.CPUs], v[resource.Mem], v[resource.Disk] = amount(cpuName), amount(memoryName)/mebibyte, anyDisk
	if _, known := of[diskName]; known {
		v[resource.Disk] = amount(diskName) / mebibyte
	}
	for name := range of {
		if strings.HasSuffix(name, gpuSuffix) && len(name) <= maxLabel {
			v[resource.GPUs] += amount(name)
		}
	}
	if err != nil || v[resource.CPUs] == 0 || v[resource.Mem] == 0 {
		return resource.Vector{}, err
	}
	return v, v.Validate()
}

// suffixes are the units of a quantity.
func suffixes() map[string]float64 {
	return map[string]float64{
		"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
		"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60,
	}
}

// quantity decodes an amount as Kubernetes writes it: 4, 3920m, 16Gi or 1e3.
func quantity(text string) (float64, error) {
	number := strings.TrimRight(text, "numkKMGTPEi")
	unit, known := suffixes()[text[len(number):]]
	x, err := strconv.ParseFloat(number, 64)
	x *= unit
	if err != nil || !known || !(x >= 0 && x <= maxQuantity) || math.IsInf(x, 0) || strings.ContainsAny(number, "xX_") {
		return 0, fmt.Errorf("%.40q is not an amount", text)
	}
	return x, nil
}
