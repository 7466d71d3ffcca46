package signaltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Workload defines repeated requests to a signal. From one evaluation to the next, each window gets one new point. The
// values have at most three decimals.
type Workload struct {
	Series      int `json:"series"`      // per window
	Points      int `json:"points"`      // per series
	Evaluations int `json:"evaluations"` // measured ones; one more precedes them
}

// Workloads returns the standard workloads: a small window, a medium one, and a day of a hundred metrics.
func Workloads() []Workload {
	return []Workload{
		{Series: 1, Points: 240, Evaluations: 300},
		{Series: 10, Points: 1000, Evaluations: 100},
		{Series: 100, Points: 1440, Evaluations: 30},
	}
}

// String returns the form "100x1440".
func (w Workload) String() string { return fmt.Sprintf("%dx%d", w.Series, w.Points) }

// Validate returns every problem of the workload.
func (w Workload) Validate() error {
	if w.Series < 1 || w.Points < 1 || w.Evaluations < 1 || w.Series*w.Points > 1<<24 {
		return fmt.Errorf("workload of %d series with %d points, %d times: want at least 1 of each, and at most %d points",
			w.Series, w.Points, w.Evaluations, 1<<24)
	}
	return nil
}

// Figures are the measurements of [Bench].
type Figures struct {
	Workload Workload      `json:"workload"`
	Bytes    int           `json:"bytes"` // size of a body
	P50      time.Duration `json:"p50_ns"`
	P99      time.Duration `json:"p99_ns"`
	// BareP50 and BareP99 are the times to write as many bytes to a socket whose reader discards them and answers one
	// byte. These writes alternate with the evaluations.
	BareP50 time.Duration `json:"bare_p50_ns"`
	BareP99 time.Duration `json:"bare_p99_ns"`
}

// Ratio returns the median time of an evaluation divided by that of the bare write.
func (f Figures) Ratio() float64 { return float64(f.P50) / float64(f.BareP50) }

// Bench measures evaluations of a running signal in JSON, from the request to the decoded answer.
func Bench(ctx context.Context, t Target, w Workload) (Figures, error) {
	if err := errors.Join(t.Validate(), w.Validate()); err != nil {
		return Figures{}, err
	}
	t = t.withDefaults()
	figures := Figures{Workload: w}
	err := withClient(ctx, t, func(ctx context.Context, client *sigproto.Client) error {
		bare, err := newBareWrite()
		if err != nil {
			return err
		}
		defer bare.close()
		return figures.measure(ctx, client, bare, grown(sample(t), w.Series, w.Points), t.Limits.Answer)
	})
	return figures, err
}

// measure alternates evaluations and bare writes.
func (f *Figures) measure(ctx context.Context, client *sigproto.Client, bare *bareWrite, e sigproto.Evaluation, limit time.Duration) error {
	e.Series = e.Series[:f.Workload.Series]
	var requestTimes, written []time.Duration
	for i := range 1 + f.Workload.Evaluations {
		advance(&e)
		bytes := body(e, "")
		f.Bytes = len(bytes)
		took, err := timed(func() error {
			bounded, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			_, err := client.Evaluate(bounded, e)
			return err
		})
		if err != nil {
			return err
		}
		wrote, err := timed(func() error { return bare.write(bytes) })
		if err != nil {
			return err
		}
		if i > 0 { // the first one also connects
			requestTimes, written = append(requestTimes, took), append(written, wrote)
		}
	}
	f.P50, f.P99 = quantiles(requestTimes)
	f.BareP50, f.BareP99 = quantiles(written)
	return nil
}

// advance moves each window by a minute. The series get new memory, as those of a metrics store do.
func advance(e *sigproto.Evaluation) {
	e.Timestamp += 60
	for i, s := range e.Series {
		e.Series[i] = sigproto.Series{
			Name: s.Name, Times: append(slices.Clone(s.Times[1:]), e.Timestamp),
			Values: append(slices.Clone(s.Values[1:]), s.Values[0]), Lineage: uint64(i + 1),
		}
	}
}

func timed(f func() error) (time.Duration, error) {
	begin := time.Now()
	err := f()
	return time.Since(begin), err
}

// quantiles returns the median and the 99th percentile.
func quantiles(durations []time.Duration) (p50, p99 time.Duration) {
	slices.Sort(durations)
	last := len(durations) - 1
	return durations[last/2], durations[(99*last+99)/100]
}

// bareWrite is a pair of sockets with a reader that discards its input.
type bareWrite struct {
	conn   net.Conn
	reader sync.WaitGroup
	sizes  chan int
}

func newBareWrite() (*bareWrite, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a pair of sockets: %w", err)
	}
	ours, errOurs := fileConn(fds[0])
	theirs, errTheirs := fileConn(fds[1])
	if err := errors.Join(errOurs, errTheirs); err != nil {
		return nil, err
	}
	b := &bareWrite{conn: ours, sizes: make(chan int, 1)}
	b.reader.Go(func() {
		defer theirs.Close()
		for n := range b.sizes {
			if _, err := io.CopyN(io.Discard, onlyReader{theirs}, int64(n)); err != nil {
				return
			}
			if _, err := theirs.Write([]byte{ackGood}); err != nil {
				return
			}
		}
	})
	return b, nil
}

// onlyReader hides methods of a connection that would copy in the kernel: a signal has to read.
type onlyReader struct{ io.Reader }

func fileConn(fd int) (net.Conn, error) {
	file := os.NewFile(uintptr(fd), "socketpair")
	defer file.Close()
	return net.FileConn(file)
}

func (b *bareWrite) write(body []byte) error {
	b.sizes <- len(body)
	if _, err := b.conn.Write(body); err != nil {
		return err
	}
	_, err := io.ReadFull(b.conn, make([]byte, 1))
	return err
}

func (b *bareWrite) close() {
	close(b.sizes)
	_ = b.conn.Close()
	b.reader.Wait()
}
