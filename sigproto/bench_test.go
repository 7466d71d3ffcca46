package sigproto

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// BenchmarkEvaluation asks a signal in another process about whole windows.
// x_bare_write is the median time over that of a bare write of the same bytes,
// over the same kind of socket, to a process that reads them and answers one
// byte, measured in turns; ms_p50 and ms_bare are the two medians.
func BenchmarkEvaluation(b *testing.B) {
	for _, size := range []struct{ series, points int }{{1, 240}, {10, 1000}, {100, 1440}} {
		b.Run(fmt.Sprintf("%dx%d/decimals=3", size.series, size.points), func(b *testing.B) {
			benchmarkEvaluation(b, windows(size.series, size.points, threeDecimals))
		})
	}
	b.Run("100x1440/mantissa=full", func(b *testing.B) {
		benchmarkEvaluation(b, windows(100, 1440, (*rand.Rand).Float64))
	})
}

func threeDecimals(r *rand.Rand) float64 { return float64(r.IntN(1_000_000)) / 1000 }

func benchmarkEvaluation(b *testing.B, e Evaluation) {
	address := testAddress(b)
	startChild(b, "signal", address)
	startChild(b, "discard", address+"-bare")
	client := NewClient(ClientConfig{Address: address})
	defer client.Close()
	ctx := within(b, 10*time.Minute)
	if _, err := client.Evaluate(ctx, e); err != nil {
		b.Fatal(err)
	}
	bare := dialChild(b, address+"-bare")
	defer bare.Close()
	body, err := appendBody(nil, e)
	if err != nil {
		b.Fatal(err)
	}

	var whole, write []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		r, err := client.Evaluate(ctx, e)
		whole = append(whole, time.Since(start))
		if err != nil || r.Resources.CPUs == nil || *r.Resources.CPUs != float64(len(e.Series)) {
			b.Fatal(r, err)
		}
		b.StopTimer()
		write = append(write, writeBare(b, bare, body))
		b.StartTimer()
	}
	ours, peer := median(whole), median(write)
	b.ReportMetric(float64(ours)/float64(peer), "x_bare_write")
	b.ReportMetric(ours.Seconds()*1e3, "ms_p50")
	b.ReportMetric(peer.Seconds()*1e3, "ms_bare")
	b.ReportMetric(float64(len(body)), "body_bytes")
}

func writeBare(b *testing.B, conn net.Conn, body []byte) time.Duration {
	start := time.Now()
	var byteBuffer [4]byte
	binary.BigEndian.PutUint32(byteBuffer[:], uint32(len(body)))
	if _, err := conn.Write(byteBuffer[:]); err != nil {
		b.Fatal(err)
	}
	if _, err := conn.Write(body); err != nil {
		b.Fatal(err)
	}
	if _, err := io.ReadFull(conn, byteBuffer[:1]); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// startChild runs the test binary in a role, until the benchmark ends.
func startChild(b *testing.B, role, address string) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childRole+"="+role, childAddress+"="+address)
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := child.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = stdin.Close()
		if err := child.Wait(); err != nil {
			b.Errorf("child %s: %v", role, err)
		}
	})
}

func dialChild(b *testing.B, address string) net.Conn {
	client := NewClient(ClientConfig{Address: address})
	if err := client.connect(within(b, 10*time.Second)); err != nil {
		b.Fatal(err)
	}
	return client.conn
}

func windows(series, points int, value func(*rand.Rand) float64) Evaluation {
	r := rand.New(rand.NewPCG(1, 2))
	e := Evaluation{Timestamp: 1_700_086_400}
	for i := range series {
		s := Series{Name: fmt.Sprintf("metric_%d", i)}
		for j := range points {
			s.Times = append(s.Times, 1_700_000_000+60*int64(j))
			s.Values = append(s.Values, value(r))
		}
		e.Series = append(e.Series, s)
	}
	return e
}

func BenchmarkEncode(b *testing.B) {
	e := windows(100, 1440, threeDecimals)
	var body []byte
	for b.Loop() {
		var err error
		if body, err = appendBody(body[:0], e); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/144_000, "ns/point")
}

func BenchmarkDecode(b *testing.B) {
	body, err := appendBody(nil, windows(100, 1440, threeDecimals))
	if err != nil {
		b.Fatal(err)
	}
	body = append(body, make([]byte, window)...)[:len(body)]
	var d decoder
	for b.Loop() {
		d.reset()
		d.feed(body)
		if d.state != done {
			b.Fatal("the body took the slow path")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/144_000, "ns/point")
}
