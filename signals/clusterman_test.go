package signals

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// clusterman sends exactly the bytes of Clusterman's autoscaler.
type clusterman struct {
	t    *testing.T
	conn net.Conn
}

// connectClusterman sends the hello in one write, without a frame.
func connectClusterman(t *testing.T, address string) clusterman {
	conn := dial(t, address)
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	c := clusterman{t, conn}
	c.write([]byte(`{"parameters": {"a": 1, "b": "\u00fc", "cluster": "c", "pool": "p"}}`))
	return c
}

func (c clusterman) write(b []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

// recv is one recv(4096).
func (c clusterman) recv() []byte {
	c.t.Helper()
	b := make([]byte, 4096)
	n, err := c.conn.Read(b)
	if err != nil {
		c.t.Fatal(err)
	}
	return b[:n]
}

// evaluate returns the response: the bytes after the ACK in one recv, or else those of one more recv.
func (c clusterman) evaluate(body []byte) []byte {
	c.t.Helper()
	c.write(binary.BigEndian.AppendUint32(nil, uint32(len(body))))
	if ack := c.recv(); string(ack) != "\x01" {
		c.t.Fatalf("the length's ACK is %q", ack)
	}
	for len(body) > 0 {
		n := min(len(body), 4096)
		c.write(body[:n])
		body = body[n:]
	}
	answer := c.recv()
	if answer[0] != 1 {
		c.t.Fatalf("the data's ACK is %#x", answer[0])
	}
	if len(answer) > 1 {
		return answer[1:]
	}
	return c.recv()
}

func TestClustermanBytes(t *testing.T) {
	address := serve(t, signalFunc(func(ctx context.Context, in Input) (resource.Request, error) {
		if in.Cluster != "" && in.Parameters["b"] != "ü" && len(in.Metrics) > 0 {
			return resource.Request{}, fmt.Errorf("parameters are %v", in.Parameters)
		}
		Explain(ctx, "%s", strings.Repeat("\"\u2028", 2000)) // the largest possible answer
		n := 0
		for _, s := range in.Metrics {
			n += s.Len()
		}
		x := math.Nextafter(float64(n), math.Inf(1))
		return resource.Of(resource.Vector{float64(n), x, x, x}), nil
	}))
	c := connectClusterman(t, address)
	for _, points := range []int{0, 1, 3000, 3000} {
		got := c.evaluate(clustermansBody(points))
		var answer struct {
			Resources map[string]*float64
		}
		if err := json.Unmarshal(got, &answer); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		if cpus := answer.Resources["cpus"]; cpus == nil || *cpus != float64(points) || len(answer.Resources) != 4 {
			t.Errorf("%d points: answer %s", points, got)
		}
	}
}

// Clusterman ignores a verdict. The rest of the answer means "keep".
func TestClustermanReadsNoOpinion(t *testing.T) {
	c := connectClusterman(t, serve(t, signalFunc(func(context.Context, Input) (resource.Request, error) {
		return resource.Request{}, fmt.Errorf("too early: %w", ErrNoOpinion)
	})))
	const want = `{"Resources":{"cpus":null,"mem":null,"disk":null,"gpus":null},"Verdict":"no_opinion","Explanation":"too early"}`
	if got := string(c.evaluate(clustermansBody(2))); got != want {
		t.Errorf("answer %s, want %s", got, want)
	}
}

// clustermansBody returns a body in the format of Python's json.
func clustermansBody(points int) []byte {
	body := []byte(`{"metrics": {"cpus_allocated": [`)
	for i := range points {
		if i > 0 {
			body = append(body, ", "...)
		}
		body = fmt.Appendf(body, "[%d, %.1f]", 1700000000+60*i, float64(i)/10)
	}
	return append(body, `]}, "timestamp": 1700000120}`...)
}

// The same signal gets the same inputs from JSON and columnar bodies.
func TestServeColumnar(t *testing.T) {
	inputs := make(chan Input, 1)
	address := serve(t, signalFunc(func(_ context.Context, in Input) (resource.Request, error) {
		inputs <- in
		return resource.Request{}, nil
	}))
	columnar := sigproto.NewClient(sigproto.ClientConfig{Address: address, Columnar: true})
	t.Cleanup(func() { _ = columnar.Close() })
	for i := range 5 {
		e := sigproto.Evaluation{Timestamp: 1700000000 + int64(i), Series: []sigproto.Series{{Name: "m", Lineage: 1}}}
		for j := range 3 {
			e.Series[0].Times = append(e.Series[0].Times, int64(i+j))
			e.Series[0].Values = append(e.Series[0].Values, float64(i+j))
		}
		if _, err := columnar.Evaluate(soon(t), e); err != nil {
			t.Fatal(err)
		}
		got := <-inputs
		s := got.Metrics["m"]
		if newest, ok := s.Last(); !ok || newest != float64(i+2) || s.Len() != 3 || got.Now.Unix() != e.Timestamp {
			t.Errorf("tick %d: input %+v", i, got)
		}
	}
}
