package sigproto

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var sample = Evaluation{
	Timestamp: 1700000120,
	Series: []Series{
		{Name: "cpus_allocated", Times: []int64{1700000000, 1700000060}, Values: []float64{12.5, 13}},
		{Name: "empty"},
		{Name: `queue|app="web"`, Times: []int64{0, 1700000060}, Values: []float64{-0.25, 1e300}},
	},
}

const (
	goldenHello = `{"parameters":{"cluster":"everywhere-prod","headroom":1.2,"pool":"default"},"cluster":"everywhere-prod","pool":"default","setpoint":0.7}`
	goldenBody  = `{"metrics":{"cpus_allocated":[[1700000000,12.5],[1700000060,13]],"empty":[],` +
		`"queue|app=\"web\"":[[0,-0.25],[1700000060,1e+300]]},"timestamp":1700000120}`
	goldenAnswer = "\x01" + `{"Resources":{"cpus":4.5,"mem":0,"disk":null,"gpus":null}}`
)

var sampleHello = Hello{Parameters: map[string]any{"headroom": 1.2}, Cluster: "everywhere-prod", Pool: "default", Setpoint: 0.7}

// peer is a signal whose messages a test writes directly.
type peer struct {
	conn net.Conn
	r    *bufio.Reader
}

func (p peer) send(s string) { _, _ = io.WriteString(p.conn, s) } // an error means that the client has closed

// hello reads the hello, length the length, and body a body of that length.
func (p peer) hello() []byte {
	data, _ := readObject(p.r, maxHello, nil)
	return data
}

func (p peer) length() []byte { return p.read(4) }

func (p peer) body(length []byte) []byte { return p.read(int(binary.BigEndian.Uint32(length))) }

func (p peer) read(n int) []byte {
	b := make([]byte, n)
	_, _ = io.ReadFull(p.r, b)
	return b
}

// evaluation reads one evaluation, up to its body.
func (p peer) evaluation() {
	length := p.length()
	p.send("\x01")
	p.body(length)
}

// hangUp waits until the client closes the connection.
func (p peer) hangUp() { _, _ = io.Copy(io.Discard, p.r) }

// good answers all evaluations.
func good(p peer) {
	p.hello()
	for {
		if _, err := p.r.Peek(1); err != nil {
			return
		}
		p.evaluation()
		p.send(goldenAnswer)
	}
}

// startSignal serves each connection with the next script. The last script serves all further connections.
func startSignal(t *testing.T, scripts ...func(peer)) (address string) {
	t.Helper()
	address = testAddress(t)
	serveScripts(t, address, scripts)
	return address
}

func serveScripts(t *testing.T, address string, scripts []func(peer)) {
	t.Helper()
	l, err := Listen(address)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for i := 0; ; i++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			stop := context.AfterFunc(t.Context(), func() { _ = conn.Close() })
			wg.Go(func() {
				defer stop()
				defer conn.Close()
				scripts[min(i, len(scripts)-1)](peer{conn, bufio.NewReader(conn)})
			})
		}
	})
}

func newTestClient(t *testing.T, config ClientConfig) *Client {
	t.Helper()
	if err := config.Validate(); err != nil {
		t.Fatal(err)
	}
	c := NewClient(config)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestGoldenBytes(t *testing.T) {
	type bytesSeen struct{ Hello, Length, Body string }
	seen := make(chan bytesSeen, 1)
	address := startSignal(t, func(p peer) {
		got := bytesSeen{Hello: string(p.hello())}
		length := p.length()
		p.send("\x01")
		got.Length, got.Body = string(length), string(p.body(length))
		seen <- got
		p.send(goldenAnswer)
		p.hangUp()
	})
	c := newTestClient(t, ClientConfig{Address: address, Hello: sampleHello})
	got, err := c.Evaluate(within(t, 10*time.Second), sample)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Response{Resources: Resources{CPUs: new(4.5), Mem: new(0.0)}}, got); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(bytesSeen{goldenHello, "\x00\x00\x00\x98", goldenBody}, <-seen); diff != "" {
		t.Errorf("bytes (-want +got):\n%s", diff)
	}
}

// A signal written from Clusterman's description reads the hello by one recv and treats all received bytes as the
// hello.
func TestSignalThatReadsHelloOnce(t *testing.T) {
	address := startSignal(t, func(p peer) {
		buffer := make([]byte, 4096)
		n, err := p.conn.Read(buffer)
		if err != nil || string(buffer[:n]) != goldenHello {
			t.Errorf("the first read is %q, %v, want the hello alone", buffer[:n], err)
		}
		for {
			length := p.length()
			p.send("\x01")
			if len(p.body(length)) == 0 {
				return
			}
			p.send(goldenAnswer)
		}
	})
	c := newTestClient(t, ClientConfig{Address: address, Hello: sampleHello})
	for range 3 {
		if _, err := c.Evaluate(within(t, 10*time.Second), sample); err != nil {
			t.Fatal(err)
		}
	}
}

// A signal that does not read the hello gets no LENGTH, and the error reports it.
func TestSignalThatDoesNotReadTheHello(t *testing.T) {
	ended, got := make(chan struct{}), make(chan string, 1)
	address := startSignal(t, func(p peer) {
		<-ended
		all, _ := io.ReadAll(p.r)
		got <- string(all)
	})
	c := newTestClient(t, ClientConfig{Address: address, Hello: sampleHello})
	_, err := c.Evaluate(within(t, 50*time.Millisecond), sample)
	close(ended)
	if e, ok := errors.AsType[*Error](err); !ok || e.Phase != PhaseHello || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Evaluate = %v, want the hello to time out", err)
	}
	if all := <-got; all != goldenHello {
		t.Errorf("the signal got %q, want the hello alone", all)
	}
}

// misbehaviours are first connections with an error. The next connection works.
var misbehaviours = []struct {
	name   string
	script func(peer)
	phase  Phase
	is     error  // nil: any error
	text   string // part of the error
}{
	{"garbage in place of the length's ACK", func(p peer) { p.hello(); p.length(); p.send("x"); p.hangUp() }, PhaseLengthACK, ErrProtocol, "0x78"},
	{"refuses the length", func(p peer) { p.hello(); p.length(); p.send("\x02"); p.hangUp() }, PhaseLengthACK, ErrRefused, ""},
	{"two ACKs at once", func(p peer) { p.hello(); p.length(); p.send("\x01\x01"); p.hangUp() }, PhaseLengthACK, ErrProtocol, "1 more bytes"},
	{"refuses the data", func(p peer) { p.hello(); p.evaluation(); p.send("\x02"); p.hangUp() }, PhaseDataACK, ErrRefused, ""},
	{"garbage in place of the data's ACK", func(p peer) { p.hello(); p.evaluation(); p.send("\x00"); p.hangUp() }, PhaseDataACK, ErrProtocol, "0x00"},
	{"response without an ACK", func(p peer) { p.hello(); p.evaluation(); p.send(goldenAnswer[1:]); p.hangUp() }, PhaseDataACK, ErrProtocol, "0x7b"},
	{"no JSON", answer("hello"), PhaseResponse, ErrProtocol, "0x68"},
	{"an array", answer("[]"), PhaseResponse, ErrProtocol, "0x5b"},
	{"broken JSON", answer(`{"Resources" 1}`), PhaseResponse, nil, "after object key"},
	{"response of 10 MB", answer(`{"Resources":{},"note":"` + strings.Repeat("x", 10<<20) + `"}`), PhaseResponse, ErrTooLarge, ""},
	{"endless response", answer("{" + strings.Repeat(" ", 2<<20)), PhaseResponse, ErrTooLarge, ""},
	{"no Resources", answer(`{"resources":{"cpus":1}}`), PhaseResponse, nil, "Resources: is missing"},
	{"Resources null", answer(`{"Resources":null}`), PhaseResponse, nil, "Resources: is <nil>"},
	{"NaN", answer(`{"Resources":{"cpus":NaN}}`), PhaseResponse, nil, "Resources.cpus: "},
	{"infinite", answer(`{"Resources":{"cpus":1,"mem":1e999}}`), PhaseResponse, nil, "Resources.mem: "},
	{"negative", answer(`{"Resources":{"disk":-1}}`), PhaseResponse, nil, "Resources.disk: is -1"},
	{"string for a number", answer(`{"Resources":{"gpus":"7"}}`), PhaseResponse, nil, "Resources.gpus: "},
	{"verdict of another name", answer(`{"Resources":{},"Verdict":"maybe"}`), PhaseResponse, nil, `Verdict: is "maybe"`},
	{"verdict is a number", answer(`{"Resources":{},"Verdict":1}`), PhaseResponse, nil, "Verdict: is of type number, want a string"},
	{"stale, with a resource", answer(`{"Verdict":"stale","Resources":{"mem":0}}`), PhaseResponse, nil, `Verdict: is "stale" beside Resources.mem = 0`},
	{"explanation is a list", answer(`{"Resources":{},"Explanation":[]}`), PhaseResponse, nil, "Explanation: "},
	{"key twice", answer(`{"Resources":{"cpus":1,"cpus":2}}`), PhaseResponse, nil, "Resources.cpus: appears twice"},
}

// The pauses stay short in the first second, and grow then.
func TestPauses(t *testing.T) {
	var got []time.Duration
	var tried time.Duration
	pause := firstPause
	for tried < 2*time.Second {
		tried += pause
		pause = nextPause(pause, tried)
		if len(got) == 0 || got[len(got)-1] != pause {
			got = append(got, pause)
		}
	}
	want := []time.Duration{10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond, 100 * time.Millisecond}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pauses (-want +got):\n%s", diff)
	}
}

func answer(response string) func(peer) {
	return func(p peer) {
		p.hello()
		p.evaluation()
		p.send("\x01" + response)
		p.hangUp()
	}
}

func TestMisbehavingSignals(t *testing.T) {
	for _, test := range misbehaviours {
		t.Run(test.name, func(t *testing.T) {
			c := newTestClient(t, ClientConfig{Address: startSignal(t, test.script, good)})
			_, err := c.Evaluate(within(t, 10*time.Second), sample)
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Phase != test.phase || test.is != nil && !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("Evaluate = %v; want phase %q, is %v, text %q", err, test.phase, test.is, test.text)
			}
			if _, err := c.Evaluate(within(t, 10*time.Second), sample); err != nil {
				t.Errorf("the next evaluation: %v", err)
			}
		})
	}
}

func TestResponseForms(t *testing.T) {
	byByte := func(p peer) {
		p.hello()
		p.evaluation()
		for i := range len(goldenAnswer) {
			p.send(goldenAnswer[i : i+1])
		}
		p.hangUp()
	}
	four := Resources{CPUs: new(4.0)}
	for _, test := range []struct {
		name   string
		script func(peer)
		want   Response
	}{
		{"byte by byte", byByte, Response{Resources: Resources{CPUs: new(4.5), Mem: new(0.0)}}},
		{"white space around", answer(" \r\n\t" + `{ "Resources" : { "cpus" : 4e0 } }` + "\n"), Response{Resources: four}},
		{"no opinion", answer(`{"Resources":{}}`), Response{}},
		{"unknown keys", answer(`{"verdict":{"a":["}"]},"Resources":{"cpus":4,"fpgas":[1]}}`),
			Response{Resources: four, Unknown: []string{"verdict", "Resources.fpgas"}}},
		{"value", answer(`{"Resources":{"cpus":4},"Verdict":"value","Explanation":null}`), Response{Resources: four}},
		{"verdict empty", answer(`{"Resources":{"cpus":4},"Verdict":"","Explanation":""}`), Response{Resources: four}},
		{"verdict null", answer(`{"Resources":{"cpus":4},"Verdict":null}`), Response{Resources: four}},
		{"no opinion", answer(`{"Resources":{"cpus":null},"Verdict":"no_opinion"}`), Response{Verdict: VerdictNoOpinion}},
		{"stale and why", answer(`{"Explanation":" no points\nsince \u001b[31mnoon","Resources":{},"Verdict":"stale"}`),
			Response{Verdict: VerdictStale, Explanation: "no points since  [31mnoon"}},
		{"as our own signals write it", answer(`{"Resources":{"cpus":4,"mem":null,"disk":null,"gpus":null},"Verdict":"value","Explanation":"4 of 5"}`),
			Response{Resources: four, Explanation: "4 of 5"}},
		{"braces in strings", answer(`{"a":"}\"}","Resources":{"cpus":4}}`), Response{Resources: four, Unknown: []string{"a"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newTestClient(t, ClientConfig{Address: startSignal(t, test.script)})
			got, err := c.Evaluate(within(t, 10*time.Second), sample)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
		})
	}
}

// Bytes after a response do not affect the next evaluation. White space is skipped on the same connection; other bytes
// lead to a new one.
func TestLeftovers(t *testing.T) {
	leave := func(rest string) func(peer) {
		return func(p peer) {
			p.hello()
			p.evaluation()
			p.send(goldenAnswer + rest)
			p.length()
			p.send("\n")
			p.send("\x02")
			p.hangUp()
		}
	}
	for _, test := range []struct {
		name, rest string
		second     error // of the second evaluation
	}{
		{"new line", "\r\n", ErrRefused}, // answer on the same connection
		{"one byte", "x", nil},
		{"an ACK too many", "\x01", nil},
		{"a byte behind much white space", strings.Repeat(" ", 10000) + "x", ErrProtocol},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newTestClient(t, ClientConfig{Address: startSignal(t, leave(test.rest), good)})
			if _, err := c.Evaluate(within(t, 10*time.Second), sample); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Evaluate(within(t, 10*time.Second), sample); !errors.Is(err, test.second) {
				t.Errorf("second evaluation = %v, want %v", err, test.second)
			}
			if _, err := c.Evaluate(within(t, 10*time.Second), sample); err != nil {
				t.Errorf("third evaluation: %v", err)
			}
		})
	}
}

// When its context ends, an evaluation ends in any phase. Each script cancels when its phase is reached.
func TestCancel(t *testing.T) {
	why := errors.New("paused")
	for _, test := range []struct {
		name   string
		script func(peer)
		after  func(peer)
		phase  Phase
	}{
		{"no length ACK", func(p peer) { p.hello(); p.length() }, peer.hangUp, PhaseLengthACK},
		{"does not read the body", func(p peer) { p.hello(); p.length(); p.send("\x01"); p.read(1) }, peer.waitClosed, PhaseDataACK},
		{"no data ACK", func(p peer) { p.hello(); p.evaluation() }, peer.hangUp, PhaseDataACK},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(within(t, 10*time.Second))
			script := func(p peer) { test.script(p); cancel(why); test.after(p) }
			c := newTestClient(t, ClientConfig{Address: startSignal(t, script, good)})
			big := windows(20, 1000, threeDecimals)
			_, err := c.Evaluate(ctx, big)
			if e, ok := errors.AsType[*Error](err); !ok || e.Phase != test.phase || !errors.Is(err, why) {
				t.Errorf("Evaluate = %v, want %q in phase %q", err, why, test.phase)
			}
			if _, err := c.Evaluate(within(t, 10*time.Second), big); err != nil {
				t.Errorf("the next evaluation: %v", err)
			}
		})
	}
}

func TestDeadline(t *testing.T) {
	c := newTestClient(t, ClientConfig{Address: startSignal(t, answer(`{"Resources":`), good)})
	_, err := c.Evaluate(within(t, 300*time.Millisecond), sample)
	if e, ok := errors.AsType[*Error](err); !ok || e.Phase != PhaseResponse || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Evaluate = %v, want the deadline in phase %q", err, PhaseResponse)
	}
	if _, err := c.Evaluate(within(t, 10*time.Second), sample); err != nil {
		t.Errorf("the next evaluation: %v", err)
	}
}

// waitClosed waits for the close without reading.
func (p peer) waitClosed() {
	for {
		if _, err := p.conn.Write([]byte(" ")); err != nil {
			return
		}
	}
}

func TestReconnect(t *testing.T) {
	once := func(p peer) { p.hello(); p.evaluation(); p.send(goldenAnswer) }
	t.Run("the kept connection was closed", func(t *testing.T) {
		c := newTestClient(t, ClientConfig{Address: startSignal(t, once)})
		for range 5 {
			if _, err := c.Evaluate(within(t, 10*time.Second), sample); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("the kept connection dies on the length", func(t *testing.T) {
		dies := func(p peer) { once(p); p.length() }
		c := newTestClient(t, ClientConfig{Address: startSignal(t, dies, good)})
		for range 2 {
			if _, err := c.Evaluate(within(t, 10*time.Second), sample); err != nil {
				t.Fatal(err)
			}
		}
	})
	for _, test := range []struct {
		name   string
		script func(peer)
		phase  Phase // of the error
	}{
		{"after the hello", func(p peer) { p.hello() }, PhaseLengthACK},
		{"after the length", func(p peer) { p.hello(); p.length() }, PhaseLengthACK},
		{"after the length's ACK", func(p peer) { p.hello(); p.length(); p.send("\x01") }, PhaseDataACK},
		{"within the body", func(p peer) { p.hello(); p.length(); p.send("\x01"); p.read(1) }, PhaseDataACK},
		{"after the body", func(p peer) { p.hello(); p.evaluation() }, PhaseDataACK},
		{"after the data's ACK", func(p peer) { p.hello(); p.evaluation(); p.send("\x01") }, PhaseResponse},
		{"within the response", func(p peer) { p.hello(); p.evaluation(); p.send(goldenAnswer[:20]) }, PhaseResponse},
	} {
		t.Run("hangs up "+test.name, func(t *testing.T) {
			c := newTestClient(t, ClientConfig{Address: startSignal(t, test.script, good)})
			_, err := c.Evaluate(within(t, 10*time.Second), sample)
			if e, ok := errors.AsType[*Error](err); !ok || e.Phase != test.phase || !hungUp(err) {
				t.Errorf("Evaluate = %v, want a hang-up in phase %q", err, test.phase)
			}
			if _, err := c.Evaluate(within(t, 10*time.Second), sample); err != nil {
				t.Errorf("the next evaluation: %v", err)
			}
		})
	}
	t.Run("refuses before it has read, and hangs up", func(t *testing.T) {
		refuses := func(p peer) { p.hello(); p.length(); p.send("\x01"); p.read(1); p.send("\x02") }
		c := newTestClient(t, ClientConfig{Address: startSignal(t, refuses, good)})
		if _, err := c.Evaluate(within(t, 10*time.Second), windows(100, 1440, threeDecimals)); !errors.Is(err, ErrRefused) {
			t.Errorf("Evaluate = %v, want ErrRefused", err)
		}
	})
	t.Run("no listener yet", func(t *testing.T) {
		address := testAddress(t)
		c := newTestClient(t, ClientConfig{Address: address})
		_, err := c.Evaluate(within(t, time.Second), sample)
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Phase != PhaseConnect || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("Evaluate = %v, want the deadline and the refusal", err)
		}
		result := make(chan error, 1)
		go func() {
			_, err := c.Evaluate(within(t, 10*time.Second), sample)
			result <- err
		}()
		serveScripts(t, address, []func(peer){good})
		if err := <-result; err != nil {
			t.Error(err)
		}
	})
}

// If an incremental columnar body is refused, a complete one follows, on the same connection and once.
func TestResync(t *testing.T) {
	type asked struct{ connection, sequence int }
	seen := make(chan asked, 10)
	var connections atomic.Int32
	refuse := func(which ...int) func(peer) {
		return func(p peer) {
			connection := int(connections.Add(1))
			p.hello()
			for i := 0; ; i++ {
				if _, err := p.r.Peek(1); err != nil {
					return
				}
				length := p.length()
				p.send("\x01")
				seen <- asked{connection, int(p.body(length)[1])}
				if slices.Contains(which, i) {
					p.send("\x02")
				} else {
					p.send(goldenAnswer)
				}
			}
		}
	}
	c := newTestClient(t, ClientConfig{Address: startSignal(t, refuse(2, 6, 7), refuse()), Columnar: true})
	for i, test := range []struct {
		want []asked
		err  error
	}{
		{[]asked{{1, 0}}, nil},
		{[]asked{{1, 1}}, nil},
		{[]asked{{1, 2}, {1, 0}}, nil}, // refused
		{[]asked{{1, 1}}, nil},
		{[]asked{{1, 2}}, nil},
		{[]asked{{1, 3}, {1, 0}}, ErrRefused}, // refused twice
		{[]asked{{2, 0}}, nil},
	} {
		if _, err := c.Evaluate(within(t, 10*time.Second), sample); !errors.Is(err, test.err) {
			t.Errorf("evaluation %d = %v, want %v", i, err, test.err)
		}
		for _, want := range test.want {
			if got := <-seen; got != want {
				t.Errorf("evaluation %d: connection and sequence %v, want %v", i, got, want)
			}
		}
	}
}

func TestCheckPeer(t *testing.T) {
	address := startSignal(t, good)
	asked := 0
	config := ClientConfig{Address: address, CheckPeer: func(pid int) error { asked = pid; return nil }}
	c := newTestClient(t, config)
	if _, err := c.Evaluate(within(t, 10*time.Second), sample); err != nil || asked != os.Getpid() {
		t.Errorf("asked about process %d, error %v; want %d", asked, err, os.Getpid())
	}
	foreignProcess := errors.New("another process")
	config.CheckPeer = func(int) error { return foreignProcess }
	c = newTestClient(t, config)
	_, err := c.Evaluate(within(t, 10*time.Second), sample)
	if e, ok := errors.AsType[*Error](err); !ok || e.Phase != PhaseConnect || !errors.Is(err, foreignProcess) {
		t.Errorf("Evaluate = %v, want %v", err, foreignProcess)
	}
}

// The listening process ends during the check: its pid may be reused.
func TestCheckPeerOfEndedProcess(t *testing.T) {
	address := testAddress(t)
	end := startChild(t, "signal", address)
	c := newTestClient(t, ClientConfig{Address: address, CheckPeer: func(int) error { end(); return nil }})
	_, err := c.Evaluate(within(t, 10*time.Second), sample)
	if e, ok := errors.AsType[*Error](err); !ok || e.Phase != PhaseConnect || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("Evaluate = %v, want that the process is gone", err)
	}
}

func TestEncodeRefuses(t *testing.T) {
	for name, e := range map[string]Evaluation{
		"NaN":               {Series: []Series{{Name: "m", Times: []int64{1}, Values: []float64{math.NaN()}}}},
		"infinity":          {Series: []Series{{Name: "m", Times: []int64{1}, Values: []float64{math.Inf(-1)}}}},
		"lengths differ":    {Series: []Series{{Name: "m", Times: []int64{1}}}},
		"time goes back":    {Series: []Series{{Name: "m", Times: []int64{2, 1}, Values: []float64{1, 1}}}},
		"name twice":        {Series: []Series{{Name: "m"}, {Name: "m"}}},
		"time out of range": {Series: []Series{{Name: "m", Times: []int64{math.MinInt64}, Values: []float64{1}}}},
		"now out of range":  {Timestamp: math.MaxInt64},
		"beyond the limit":  {Series: []Series{{Name: "m" + strings.Repeat("x", 200)}}},
	} {
		t.Run(name, func(t *testing.T) {
			address := startSignal(t, good)
			for _, columnar := range []bool{false, true} {
				c := newTestClient(t, ClientConfig{Address: address, MaxBody: 100, Columnar: columnar})
				_, err := c.Evaluate(within(t, 10*time.Second), e)
				if e, ok := errors.AsType[*Error](err); !ok || e.Phase != PhaseEncode {
					t.Errorf("columnar %v: Evaluate = %v, want an error of phase encode", columnar, err)
				}
			}
		})
	}
}

func TestClientConfigValidate(t *testing.T) {
	err := ClientConfig{
		Address: strings.Repeat("a", 108), MaxBody: -1, MaxResponse: -1,
		Hello: Hello{Parameters: map[string]any{"x": math.NaN()}},
	}.Validate()
	for _, want := range []string{"108 bytes", "parameters", "body is -1", "response is -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate = %v, want it to say %q", err, want)
		}
	}
}

func TestAddress(t *testing.T) {
	if got := Address("shop", "Load", "web"); got != "shop-Load-web-socket" {
		t.Errorf("Address = %q", got)
	}
	for _, address := range []string{"", "a\x00b", strings.Repeat("a", MaxAddress+1)} {
		if l, err := Listen(address); err == nil {
			l.Close()
			t.Errorf("Listen(%q) has no error", address)
		}
	}
	longest := testAddress(t)
	longest += strings.Repeat("a", MaxAddress-len(longest))
	l, err := Listen(longest)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if rival, err := Listen(longest); err == nil {
		rival.Close()
		t.Error("two listeners on one address")
	}
	sockets, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(sockets, []byte(" @"+longest+"\n")) {
		t.Error("the kernel does not list the abstract socket under its exact name")
	}
}
