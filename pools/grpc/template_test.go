package grpc

import (
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/weirkeeper/weirkeeper/pools/grpc/externalgrpc"
)

// nodeOf returns a node with two GPUs, as a server sends it.
func nodeOf(t *testing.T, cpu, mem, freeCPU, freeMem string) []byte {
	t.Helper()
	size := func(cpu, mem string) map[string]*pb.Quantity {
		return map[string]*pb.Quantity{"cpu": {String_: cpu}, "memory": {String_: mem}, "nvidia.com/gpu": {String_: "2"}, "pods": {String_: "110"}}
	}
	node, err := proto.Marshal(&pb.Node{
		Metadata: &pb.Metadata{Labels: map[string]string{typeLabel: "m5.large", zoneLabel: "eu-1a", "x": "\x1b"}},
		Status:   &pb.NodeStatus{Capacity: size(cpu, mem), Allocatable: size(freeCPU, freeMem)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

func TestQuantity(t *testing.T) {
	for text, want := range map[string]float64{
		"4": 4, "0": 0, "3920m": 3.92, "16Gi": 16 << 30, "1e3": 1000, "1E3": 1000, "12k": 12000, "1.5Ki": 1536, "2E": 2e18, "1Ei": 1 << 60,
		"": -1, "four": -1, "-1": -1, "NaN": -1, "Inf": -1, "Infinity": -1, "1e400": -1, "0x10": -1, "1_000": -1, "4 ": -1, "16GiB": -1, "mm": -1, "9E": -1, "1Eii": -1,
	} {
		got, err := quantity(text)
		if wrong := want < 0 || want > maxQuantity; (err != nil) != wrong || !wrong && got != want {
			t.Errorf("quantity(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
}

// A template from the network is a valid machine, or an error.
func FuzzTemplate(f *testing.F) {
	f.Add([]byte{}, []byte{0xff})
	node, _ := proto.Marshal(&pb.Node{Status: &pb.NodeStatus{Capacity: map[string]*pb.Quantity{"cpu": {String_: "4"}, "memory": {String_: "1Gi"}}}})
	f.Add(node, []byte{})
	f.Fuzz(func(t *testing.T, info, data []byte) {
		got, ok, err := templateOf(&pb.NodeGroupTemplateNodeInfoResponse{NodeInfo: info, NodeBytes: data}, "g")
		if ok && (err != nil || got.new.Validate() != nil || got.whole.Validate() != nil || got.market.InstanceType == "") {
			t.Errorf("template %+v, %v", got, err)
		}
	})
}

// The answer of a server of any kind is a valid reading, or an error.
func FuzzReading(f *testing.F) {
	good, _ := proto.Marshal(&pb.NodeGroupNodesResponse{Instances: []*pb.Instance{running("n-1")}})
	f.Add(good)
	f.Fuzz(func(t *testing.T, data []byte) {
		var answer pb.NodeGroupNodesResponse
		if proto.Unmarshal(data, &answer) != nil {
			return
		}
		r, err := readingOf("g", answer.Instances, noon)
		if err != nil {
			return
		}
		for _, i := range r.instances {
			if i.Group != "g" || i.Weight != 1 || i.ID == "" || i.Launched.After(noon.AddDate(0, 0, 1)) || r.find(i.ID).address != i.address {
				t.Errorf("instance %+v", i)
			}
		}
	})
}
