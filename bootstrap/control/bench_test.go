package control

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// BenchmarkStart measures a signal from its start to its description, without its stop. A prototype of go-plugin with
// its own runner takes 7 ms.
func BenchmarkStart(b *testing.B) {
	launcher := runLauncher(b)
	var took []time.Duration
	for n := 0; b.Loop(); n++ {
		h := newHost(b)
		spec, _ := h.signalSpec(b, "signal")
		spec.Argv[3] += fmt.Sprint(n)
		began := time.Now()
		child := start(b, launcher, spec)
		if _, err := h.Describe(b.Context()); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
		b.StopTimer()
		h.Close()
		if err := child.Stop(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkHealth measures an empty round trip of go-plugin's gRPC.
func BenchmarkHealth(b *testing.B) {
	h := newHost(b)
	spec, _ := h.signalSpec(b, "signal")
	start(b, runLauncher(b), spec)
	if err := h.Health(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := h.Health(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// Size of the comparison: number of series, points per series.
const (
	packedSeries = 10
	packedPoints = 1000
	pointSize    = 16
)

const evaluateMethod = "/test.Windows/Evaluate"

// BenchmarkPackedWindows measures an evaluation with windows sent over go-plugin's gRPC in its most compact form:
// packed, 16 bytes a point, and decoded completely. The delta tick of package sigproto should be ten times as fast.
func BenchmarkPackedWindows(b *testing.B) {
	h := newHost(b)
	spec, _ := h.signalSpec(b, "windows")
	start(b, runLauncher(b), spec)
	if err := h.Health(b.Context()); err != nil {
		b.Fatal(err)
	}
	conn, err := grpc.NewClient("unix://"+h.link.hello.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	values := make([]float64, packedPoints)
	for i := range values {
		values[i] = math.Sqrt(float64(i))
	}
	buffer := make([]byte, 0, packedSeries*packedPoints*pointSize)
	b.ReportAllocs()
	for b.Loop() {
		buffer = buffer[:0]
		for range packedSeries {
			for i, v := range values {
				buffer = binary.LittleEndian.AppendUint64(buffer, uint64(1_700_000_000+60*i))
				buffer = binary.LittleEndian.AppendUint64(buffer, math.Float64bits(v))
			}
		}
		answer := new(wrapperspb.DoubleValue)
		if err := conn.Invoke(b.Context(), evaluateMethod, wrapperspb.Bytes(buffer), answer); err != nil {
			b.Fatal(err)
		}
		if want := packedSeries * values[len(values)-1]; math.Abs(answer.Value-want) > 1e-6 {
			b.Fatalf("answer %v, want %v", answer.Value, want)
		}
	}
}

// windows is a plugin that accepts packed points.
type windows struct{ controlPlugin }

func (w *windows) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Windows",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Evaluate", Handler: evaluatePacked}},
	}, w)
	return nil
}

// evaluatePacked decodes all points and adds the last values of the series.
func evaluatePacked(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	request := new(wrapperspb.BytesValue)
	if err := decode(request); err != nil {
		return nil, err
	}
	var sum float64
	times, values := make([]int64, packedPoints), make([]float64, packedPoints)
	for series := range slices.Chunk(request.Value, packedPoints*pointSize) {
		for i := range packedPoints {
			times[i] = int64(binary.LittleEndian.Uint64(series[i*pointSize:]))
			values[i] = math.Float64frombits(binary.LittleEndian.Uint64(series[i*pointSize+8:]))
		}
		sum += values[packedPoints-1]
	}
	return wrapperspb.Double(sum), nil
}
