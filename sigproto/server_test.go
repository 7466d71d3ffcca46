package sigproto

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// pair returns a signal's end, and the raw end of an autoscaler.
func pair(t *testing.T, config ServerConfig) (*ServerConn, net.Conn) {
	t.Helper()
	address := testAddress(t)
	l, err := Listen(address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	raw, err := net.Dial("unix", "@"+address)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close(); conn.Close() })
	return NewServerConn(conn, config), raw
}

func send(t *testing.T, conn net.Conn, s string) {
	t.Helper()
	if _, err := io.WriteString(conn, s); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Fatalf("got %q, %v; want %q", got, err, want)
	}
}

func framed(body string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(body)))) + body
}

// The hello has no terminator. The length, and here the body too, arrive with it in one packet.
func TestHelloWithLength(t *testing.T) {
	s, raw := pair(t, ServerConfig{})
	send(t, raw, goldenHello+framed(goldenBody))
	hello, err := s.ReadHello()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sampleHello, hello); diff != "" {
		t.Errorf("hello (-want +got):\n%s", diff)
	}
	e, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample, e); diff != "" {
		t.Errorf("evaluation (-want +got):\n%s", diff)
	}
	if err := s.Answer(Response{Resources: Resources{CPUs: new(4.5), Mem: new(0.0)}}); err != nil {
		t.Fatal(err)
	}
	expect(t, raw, "\x01"+goldenAnswer)
	raw.Close()
	if _, err := s.Next(); err != io.EOF {
		t.Errorf("Next after the hang-up = %v, want io.EOF", err)
	}
}

func TestHelloForms(t *testing.T) {
	for _, test := range []struct {
		name, in string
		want     Hello
		wrong    string
	}{
		{"design document", `{"parameters":{"a":1},"cluster":"c","pool":"p"}`, Hello{Parameters: map[string]any{"a": 1.0}, Cluster: "c", Pool: "p"}, ""},
		{"code of Clusterman", `{"parameters": {"cluster": "c", "pool": "p"}}`, Hello{Parameters: map[string]any{}, Cluster: "c", Pool: "p"}, ""},
		{"with a setpoint", `{"parameters":{},"setpoint":0.7}`, Hello{Parameters: map[string]any{}, Setpoint: 0.7}, ""},
		{"with a time of launch", `{"launch_seconds":90.5}`, Hello{Launch: 90500 * time.Millisecond}, ""},
		{"launch is null", `{"launch_seconds":null}`, Hello{}, ""},
		{"launch below 0", `{"launch_seconds":-1}`, Hello{}, "launch_seconds: is -1"},
		{"launch too long", `{"launch_seconds":1e300}`, Hello{}, "launch_seconds: is 1e+300, want at most 86400"},
		{"launch is a text", `{"launch_seconds":"4m"}`, Hello{}, "launch_seconds: "},
		{"setpoint below 0", `{"setpoint":-1}`, Hello{}, "setpoint: is -1"},
		{"setpoint is a text", `{"setpoint":"a"}`, Hello{}, "setpoint: "},
		{"nothing", `{}`, Hello{}, ""},
		{"nulls", `{"parameters":{"a":null,"cluster":null,"pool":"p"},"cluster":null}`, Hello{Parameters: map[string]any{"a": nil}, Pool: "p"}, ""},
		{"white space", " \r\n\t{ }", Hello{}, ""},
		{"byte order mark", "\xef\xbb\xbf{}", Hello{}, "want a JSON object"},
		{"list", `[{}]`, Hello{}, "want a JSON object"},
		{"key twice", `{"pool":"p","pool":"q"}`, Hello{}, "pool: appears twice"},
		{"unknown key", `{"zone":{}}`, Hello{Unknown: []string{"zone"}}, ""},
		{"cluster is a number", `{"parameters":{"cluster":7}}`, Hello{}, "parameters.cluster: is 7"},
		{"parameters are a list", `{"parameters":[]}`, Hello{}, "parameters: "},
		{"no object", `7`, Hello{}, "want a JSON object"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, raw := pair(t, ServerConfig{})
			send(t, raw, test.in)
			got, err := s.ReadHello()
			if test.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), test.wrong) {
					t.Errorf("ReadHello = %v, want %q", err, test.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("hello (-want +got):\n%s", diff)
			}
		})
	}
}

// An invalid body is refused, and the connection continues.
func TestBadBody(t *testing.T) {
	s, raw := pair(t, ServerConfig{})
	send(t, raw, "{}"+framed(`{"metrics":{"m":[[1,01]]},"timestamp":1}`)+framed(goldenBody))
	if _, err := s.ReadHello(); err != nil {
		t.Fatal(err)
	}
	_, err := s.Next()
	if field, ok := errors.AsType[*FieldError](err); !errors.Is(err, ErrBody) || !ok || field.Field != "metrics.m" {
		t.Errorf("Next = %v, want ErrBody for metrics.m", err)
	}
	if _, err := s.Next(); err != nil {
		t.Errorf("the next evaluation: %v", err)
	}
	expect(t, raw, "\x01\x02\x01")
}

func TestLengthTooLarge(t *testing.T) {
	s, raw := pair(t, ServerConfig{MaxBody: 100})
	send(t, raw, "\x00\x00\x00\x65")
	if _, err := s.Next(); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Next = %v, want ErrTooLarge", err)
	}
	expect(t, raw, "\x02")
}

// A length may be wrong: memory grows only with the received bytes.
func TestWrongLengthIsBounded(t *testing.T) {
	s, raw := pair(t, ServerConfig{})
	send(t, raw, "\x3f\xff\xff\xff"+goldenBody[:50])
	if err := raw.(*net.UnixConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Next = %v, want io.ErrUnexpectedEOF", err)
	}
	if cap(s.body) > 2*firstRead {
		t.Errorf("%d bytes were taken for 50", cap(s.body))
	}
}

func TestStalledAutoscaler(t *testing.T) {
	for name, sentSeries := range map[string]string{"hello": "{", "length": "{}\x00", "body": "{}\x00\x00\x00\x10{"} {
		t.Run(name, func(t *testing.T) {
			s, raw := pair(t, ServerConfig{Timeout: 20 * time.Millisecond})
			send(t, raw, sentSeries)
			_, err := s.ReadHello()
			if err == nil {
				_, err = s.Next()
			}
			if e, ok := errors.AsType[net.Error](err); !ok || !e.Timeout() {
				t.Errorf("error = %v, want a timeout", err)
			}
		})
	}
}

func TestAnswerRefusesInvalidResponse(t *testing.T) {
	s, raw := pair(t, ServerConfig{})
	for _, test := range []struct {
		name, field string
		r           Response
	}{
		{"negative", "Resources.mem", Response{Resources: Resources{Mem: new(-1.0)}}},
		{"verdict of another name", "Verdict", Response{Verdict: "maybe"}},
		{"stale, with a resource", "Resources.disk", Response{Verdict: VerdictStale, Resources: Resources{Disk: new(0.0)}}},
	} {
		if err := s.Answer(test.r); err == nil || !strings.Contains(err.Error(), test.field) {
			t.Errorf("%s: Answer = %v, want an error for %s", test.name, err, test.field)
		}
	}
	if err := s.Refuse(); err != nil {
		t.Fatal(err)
	}
	expect(t, raw, "\x02")
}

func TestAnswerForms(t *testing.T) {
	const nulls = `{"Resources":{"cpus":null,"mem":null,"disk":null,"gpus":null}`
	for _, test := range []struct {
		name string
		r    Response
		want string
	}{
		{"no opinion", Response{Verdict: VerdictNoOpinion}, nulls + `,"Verdict":"no_opinion"}`},
		{"stale and why", Response{Verdict: VerdictStale, Explanation: "<no> \"points\""}, nulls + `,"Verdict":"stale","Explanation":"<no> \"points\""}`},
		{"several lines", Response{Explanation: "\n1\x1b[2J\u202e2\t3\u20284\n"}, nulls + `,"Explanation":"1 [2J 2 3 4"}`},
		{"too long", Response{Explanation: strings.Repeat("\"", 5000)}, nulls + `,"Explanation":"` + strings.Repeat(`\"`, MaxExplanation) + `"}`},
		{"cut between characters", Response{Explanation: strings.Repeat("x", MaxExplanation-1) + "ü"}, nulls + `,"Explanation":"` + strings.Repeat("x", MaxExplanation-1) + `"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, raw := pair(t, ServerConfig{})
			if err := s.Answer(test.r); err != nil {
				t.Fatal(err)
			}
			raw.(*net.UnixConn).SetReadDeadline(time.Now().Add(time.Minute))
			got := make([]byte, 2*maxAnswer)
			n, err := raw.Read(got) // one write, so one read
			if diff := cmp.Diff("\x01"+test.want, string(got[:n])); err != nil || diff != "" {
				t.Errorf("error %v, answer (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestWatch(t *testing.T) {
	s, raw := pair(t, ServerConfig{})
	send(t, raw, framed(goldenBody)+framed(goldenBody))
	for range 2 { // the next evaluation has already arrived: it is neither a closed connection nor lost
		if _, err := s.Next(); err != nil {
			t.Fatal(err)
		}
		_, stop := s.Watch(t.Context())
		stop()
	}
	ctx, stop := s.Watch(t.Context())
	if err := ctx.Err(); err != nil {
		t.Errorf("the context ended early: %v", err)
	}
	raw.Close()
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
		t.Error("the hang-up was not seen")
	}
	stop()
	if cause := context.Cause(ctx); !strings.Contains(cause.Error(), "has closed the connection") {
		t.Errorf("cause = %v, want the hang-up", cause)
	}
}
