package sigproto

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Values of the windows. The figures depend on them.
var kinds = []struct {
	name  string
	value func(*rand.Rand) float64
}{
	{"decimals=3", threeDecimals},
	{"mantissa=full", (*rand.Rand).Float64},
}

func threeDecimals(r *rand.Rand) float64 { return float64(r.IntN(1_000_000)) / 1000 }

// BenchmarkCold sends whole windows as JSON, without a previous encoding, to a signal in another process. x_bare_write
// is the ratio of the median time to that of a bare write. The bare write sends the same bytes over the same kind of
// socket to a process that reads them and answers one byte. The two alternate. ms_p50 and ms_bare are the medians.
func BenchmarkCold(b *testing.B) {
	for _, kind := range kinds {
		for _, size := range []struct{ series, points int }{{1, 240}, {10, 1000}, {100, 1440}} {
			b.Run(fmt.Sprintf("json/%dx%d/%s", size.series, size.points, kind.name), func(b *testing.B) {
				e := windows(size.series, size.points, kind.value)
				benchmarkTicks(b, ticks{next: func() Evaluation { return e }, cold: true})
			})
		}
	}
}

// BenchmarkNextTick sends windows that have lost their first point and got a new one since the last tick.
func BenchmarkNextTick(b *testing.B) {
	for _, columnar := range []bool{false, true} {
		for _, size := range []struct{ series, points int }{{1, 240}, {10, 1000}, {100, 1440}, {1000, 1440}} {
			form := map[bool]string{false: "json", true: "columnar"}[columnar]
			b.Run(fmt.Sprintf("%s/%dx%d/decimals=3", form, size.series, size.points), func(b *testing.B) {
				benchmarkTicks(b, ticks{next: newSlide(size.series, size.points, 1).next, columnar: columnar})
			})
		}
	}
}

type ticks struct {
	next     func() Evaluation
	columnar bool
	cold     bool
}

func benchmarkTicks(b *testing.B, w ticks) {
	address := testAddress(b)
	startChild(b, "signal", address)
	startChild(b, "discard", address+"-bare")
	client := NewClient(ClientConfig{Address: address, Columnar: w.columnar})
	defer client.Close()
	ctx := within(b, 10*time.Minute)
	for range 3 {
		if _, err := client.Evaluate(ctx, w.next()); err != nil {
			b.Fatal(err)
		}
	}
	bare := dialChild(b, address+"-bare")
	defer bare.Close()

	var whole, write []time.Duration
	var body []byte
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		e := w.next()
		if w.cold {
			client.json = bodyCache{}
		}
		b.StartTimer()
		start := time.Now()
		r, err := client.Evaluate(ctx, e)
		whole = append(whole, time.Since(start))
		if err != nil || r.Resources.CPUs == nil || *r.Resources.CPUs != float64(len(e.Series)) {
			b.Fatal(r, err)
		}
		b.StopTimer()
		body = lastBody(b, client, body)
		write = append(write, writeBare(b, bare, body))
		b.StartTimer()
	}
	ours, peer := median(whole), median(write)
	b.ReportMetric(float64(ours)/float64(peer), "x_bare_write")
	b.ReportMetric(ours.Seconds()*1e3, "ms_p50")
	b.ReportMetric(peer.Seconds()*1e3, "ms_bare")
	b.ReportMetric(float64(client.length), "body_bytes")
}

// lastBody returns the last body in one piece. It reuses the memory of an earlier body, so that the garbage collector
// does not affect the figure.
func lastBody(b *testing.B, c *Client, body []byte) []byte {
	if c.config.Columnar {
		return c.columnar.body
	}
	body = append(body[:0], c.json.head...)
	for i, m := range c.json.series.order {
		body = append(body, m.kept.view(i == 0)...)
	}
	if body = append(body, c.json.tail...); len(body) != c.length {
		b.Fatalf("%d bytes, want %d", len(body), c.length)
	}
	return body
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

// BenchmarkNextTickCPU compares the processor time of this process for a next tick with that of a bare write of the
// same bytes on the same connection. The two alternate.
func BenchmarkNextTickCPU(b *testing.B) {
	for _, size := range []struct{ series, points int }{{10, 1000}, {100, 1440}, {1000, 1440}} {
		b.Run(fmt.Sprintf("json/%dx%d/decimals=3", size.series, size.points), func(b *testing.B) {
			benchmarkCPU(b, newSlide(size.series, size.points, 1))
		})
	}
}

func benchmarkCPU(b *testing.B, slide *slide) {
	address := testAddress(b)
	startChild(b, "signal", address)
	client := NewClient(ClientConfig{Address: address})
	defer client.Close()
	ctx := within(b, 10*time.Minute)
	for range 3 {
		if _, err := client.Evaluate(ctx, slide.next()); err != nil {
			b.Fatal(err)
		}
	}
	var ours, bare []time.Duration
	var body []byte
	for b.Loop() {
		e := slide.next()
		start := cpuTime(b)
		if _, err := client.Evaluate(ctx, e); err != nil {
			b.Fatal(err)
		}
		ours = append(ours, cpuTime(b)-start)
		body = lastBody(b, client, body)
		start = cpuTime(b)
		if err := client.link.sendLength(len(body)); err != nil {
			b.Fatal(err)
		}
		if _, err := client.link.conn.Write(body); err != nil {
			b.Fatal(err)
		}
		if _, err := client.link.reader.ReadByte(); err != nil {
			b.Fatal(err)
		}
		if _, err := readObject(client.link.reader, maxAnswer, nil); err != nil {
			b.Fatal(err)
		}
		bare = append(bare, cpuTime(b)-start)
	}
	b.ReportMetric(float64(median(ours))/float64(median(bare)), "x_bare_cpu")
	b.ReportMetric(median(ours).Seconds()*1e3, "cpu_ms_p50")
	b.ReportMetric(median(bare).Seconds()*1e3, "cpu_ms_bare")
}

// cpuTime returns the processor time of this process, in user and kernel mode.
func cpuTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// BenchmarkPeakMemory measures the maximum resident size (VmHWM) of a process that holds 1000 windows of 1440 points,
// 23 MB, and sends them to a signal tick after tick.
func BenchmarkPeakMemory(b *testing.B) {
	for _, form := range []string{"none", "columnar", "columnar,compared", "json", "json,compared"} {
		b.Run(form+"/1000x1440/decimals=3", func(b *testing.B) {
			var peaks []int
			for b.Loop() {
				b.StopTimer()
				address := testAddress(b)
				end := startChild(b, "signal", address)
				child := exec.Command(os.Args[0])
				child.Env = append(os.Environ(), childRole+"=autoscaler", childAddress+"="+address, childForm+"="+form)
				child.Stderr = os.Stderr
				b.StartTimer()
				out, err := child.Output()
				b.StopTimer()
				var kB int
				if _, scanErr := fmt.Sscan(string(out), &kB); err != nil || scanErr != nil {
					b.Fatal(err, scanErr)
				}
				peaks = append(peaks, kB)
				end()
				b.StartTimer()
			}
			slices.Sort(peaks)
			b.ReportMetric(float64(peaks[len(peaks)/2])/1000, "MB_peak")
		})
	}
}

// runAutoscaler sends thirty ticks, and prints its peak memory in kB.
func runAutoscaler() error {
	form := os.Getenv(childForm)
	lineage := uint64(1)
	if strings.HasSuffix(form, ",compared") {
		lineage = 0
	}
	slide := newSlide(1000, 1440, lineage)
	client := NewClient(ClientConfig{Address: os.Getenv(childAddress), Columnar: strings.HasPrefix(form, "columnar")})
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 30 {
		e := slide.next()
		if form == "none" {
			continue
		}
		if _, err := client.Evaluate(ctx, e); err != nil {
			return err
		}
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	fmt.Println(strings.Fields(after)[0])
	return nil
}

// startChild runs the test binary in a role, until end is called or the test ends.
func startChild(tb testing.TB, role, address string) (end func()) {
	tb.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childRole+"="+role, childAddress+"="+address)
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := child.Start(); err != nil {
		tb.Fatal(err)
	}
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		_ = stdin.Close()
		if err := child.Wait(); err != nil {
			tb.Errorf("child %s: %v", role, err)
		}
	}
	tb.Cleanup(end)
	return end
}

func dialChild(b *testing.B, address string) net.Conn {
	client := NewClient(ClientConfig{Address: address})
	if err := client.connect(within(b, 10*time.Second)); err != nil {
		b.Fatal(err)
	}
	return client.link.conn
}

func windows(series, points int, value func(*rand.Rand) float64) Evaluation {
	r := rand.New(rand.NewPCG(1, 2))
	e := Evaluation{Timestamp: 1_700_086_400}
	for i := range series {
		s := Series{Name: fmt.Sprintf("metric_%d", i), Lineage: 1}
		for j := range points {
			s.Times = append(s.Times, 1_700_000_000+60*int64(j))
			s.Values = append(s.Values, value(r))
		}
		e.Series = append(e.Series, s)
	}
	return e
}

// slide is a set of windows that move by one point a tick, in memory that is reused as in a metrics store.
type slide struct {
	evaluation Evaluation
	random     *rand.Rand
	times      [][]int64
	values     [][]float64
}

// spare is the number of ticks before a slide moves its points.
const spare = 64

func newSlide(series, points int, lineage uint64) *slide {
	s := &slide{random: rand.New(rand.NewPCG(3, 4))}
	s.evaluation = Evaluation{Timestamp: 1_700_000_000 + 60*int64(points)}
	for i := range series {
		times, values := make([]int64, points, points+spare), make([]float64, points, points+spare)
		for j := range points {
			times[j], values[j] = 1_700_000_000+60*int64(j), threeDecimals(s.random)
		}
		s.times, s.values = append(s.times, times), append(s.values, values)
		s.evaluation.Series = append(s.evaluation.Series, Series{Name: fmt.Sprintf("metric_%d", i), Times: times, Values: values, Lineage: lineage})
	}
	return s
}

func (s *slide) next() Evaluation {
	s.evaluation.Timestamp += 60
	for i := range s.evaluation.Series {
		one := &s.evaluation.Series[i]
		if len(one.Times) == cap(one.Times) {
			n := copy(s.times[i][:cap(s.times[i])], one.Times)
			copy(s.values[i][:cap(s.values[i])], one.Values)
			one.Times, one.Values = s.times[i][:n], s.values[i][:n]
		}
		one.Times = append(one.Times, one.Times[len(one.Times)-1]+60)[1:]
		one.Values = append(one.Values, threeDecimals(s.random))[1:]
	}
	return s.evaluation
}

func BenchmarkEncode(b *testing.B) {
	for _, kind := range kinds {
		b.Run("100x1440/"+kind.name, func(b *testing.B) {
			e := windows(100, 1440, kind.value)
			for b.Loop() {
				if _, err := encodePieces(e); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/144_000, "ns/point")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, kind := range kinds {
		b.Run("100x1440/"+kind.name, func(b *testing.B) {
			body, err := encodeJSON(windows(100, 1440, kind.value))
			if err != nil {
				b.Fatal(err)
			}
			body = append(body, make([]byte, lookahead)...)[:len(body)]
			var d decoder
			for b.Loop() {
				d.reset()
				d.feed(body)
				if d.state != done {
					b.Fatal("the body took the slow path")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/144_000, "ns/point")
		})
	}
}
