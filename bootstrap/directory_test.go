package bootstrap_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

const (
	webUp   = `{"revision":1,"signals":[{"app":"web","address":"a-b-web-socket","group":7,"version":"v1"}]}` + "\n"
	webDown = `{"revision":2,"signals":[{"app":"web","address":"a-b-web-socket","down":"why"}]}` + "\n"
)

func TestReader(t *testing.T) {
	entryUp := bootstrap.Entry{App: "web", Endpoint: bootstrap.Endpoint{Address: "a-b-web-socket", Group: 7, Version: "v1"}}
	entryDown := bootstrap.Entry{App: "web", Endpoint: bootstrap.Endpoint{Address: "a-b-web-socket", Down: "why"}}
	unknown := bootstrap.Entry{App: "web", Endpoint: bootstrap.Endpoint{Down: "bootstrap has no signal for it"}}
	const most = 16 << 20
	padded := func(size int) string { // a revision of that many bytes, without the end of the line
		line := strings.TrimSuffix(webUp, "\n")
		return line + strings.Repeat(" ", size-len(line)) + "\n"
	}
	for _, c := range []struct {
		name, stream string
		want         bootstrap.Entry
		err          string
		first        bool // a revision arrived
	}{
		{"nothing", "", unknown, "bootstrap has ended", false},
		{"one revision", webUp, entryUp, "bootstrap has ended", true},
		{"two revisions", webUp + webDown, entryDown, "bootstrap has ended", true},
		{"cut off in a line", webUp + webDown[:40], entryUp, "bootstrap has ended", true},
		{"cut off before the line's end", webUp + webDown[:len(webDown)-1], entryUp, "bootstrap has ended", true},
		{"a revision without signals", webUp + "{}\n", unknown, "bootstrap has ended", true},
		{"keys of a later version", `{"x":1,"signals":[{"app":"web","address":"a-b-web-socket","down":"why","y":[]}]}` + "\n", entryDown, "bootstrap has ended", true},
		{"empty line", webUp + "\n" + webDown, entryUp, "follow bootstrap: read directory: invalid data on the stream: unexpected end of JSON input", true},
		{"garbage", webUp + "garbage\n" + webDown, entryUp, "follow bootstrap: read directory: invalid data on the stream: invalid character 'g' looking for beginning of value", true},
		{"null", webUp + "null\n", unknown, "bootstrap has ended", true},
		{"wrong type", `{"signals":[{"app":5}]}` + "\n", unknown, "follow bootstrap: read directory: invalid data on the stream: json: cannot unmarshal number into Go struct field Entry.signals.app of type string", false},
		{"group too large", `{"signals":[{"app":"web","group":1e30}]}` + "\n", unknown, "follow bootstrap: read directory: invalid data on the stream: json: cannot unmarshal number 1e30 into Go struct field Entry.signals.Endpoint.group of type int", false},
		{"huge line", padded(most - 1), entryUp, "bootstrap has ended", true},
		{"too long line", padded(most), unknown, "follow bootstrap: invalid data on the stream: a line of more than 16777216 bytes", false},
		{"too long and no end", strings.Repeat("x", most+1), unknown, "follow bootstrap: invalid data on the stream: a line of more than 16777216 bytes", false},
	} {
		streams := map[string]io.Reader{
			"":                 strings.NewReader(c.stream),
			", in half pieces": iotest.HalfReader(strings.NewReader(c.stream)),
		}
		if len(c.stream) < most/2 { // the others read small pieces
			streams[", data with EOF"] = iotest.DataErrReader(strings.NewReader(c.stream))
			streams[", byte for byte"] = iotest.OneByteReader(strings.NewReader(c.stream))
		}
		for name, stream := range streams {
			t.Run(c.name+name, func(t *testing.T) {
				r := bootstrap.NewReader()
				err := r.Run(oneWay{stream})
				if diff := cmp.Diff(c.err, fmt.Sprint(err)); diff != "" {
					t.Errorf("Run (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(c.want, r.Entry("web")); diff != "" {
					t.Errorf("entry (-want +got):\n%s", diff)
				}
				if first := isClosed(r.First()); first != c.first {
					t.Errorf("first revision has come: %v, want %v", first, c.first)
				}
			})
		}
	}
}

func TestReaderOfABrokenStream(t *testing.T) {
	broken := errors.New("broken")
	r := bootstrap.NewReader()
	err := r.Run(oneWay{io.MultiReader(strings.NewReader(webUp), iotest.ErrReader(broken))})
	if !errors.Is(err, broken) || errors.Is(err, bootstrap.ErrGone) {
		t.Errorf("Run = %v, want the stream's error and not ErrGone", err)
	}
}

func TestReaderOfAStreamThatEndsWithReportsUnread(t *testing.T) {
	reset := &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	if err := bootstrap.NewReader().Run(oneWay{iotest.ErrReader(reset)}); !errors.Is(err, bootstrap.ErrGone) {
		t.Errorf("Run = %v, want ErrGone", err)
	}
}

// oneWay is a read-only stream.
type oneWay struct{ io.Reader }

func (oneWay) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
func (oneWay) Close() error              { return nil }

func TestReaderReportsChanges(t *testing.T) {
	childEnd, ours := net.Pipe()
	r := bootstrap.NewReader()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ours) }()
	_, changed := r.Directory()
	io.WriteString(childEnd, `{"revision":1,"config":"b25l","signals":[]}`+"\n")
	await.Value(t, "a revision", changed)
	first, changed := r.Directory()
	io.WriteString(childEnd, `{"revision":2,"signals":[]}`+"\n")
	await.Value(t, "another revision", changed)
	second, _ := r.Directory()
	if first.Revision != 1 || second.Revision != 2 || string(second.Config) != "one" {
		t.Errorf("revisions %+v and %+v, want 1 and 2, both with the configuration", first, second)
	}
	r.Report(bootstrap.Report{Revision: 2, Answers: []bootstrap.Answer{{App: "web", Address: "a", Verdict: "value"}}})
	line, err := bufio.NewReader(childEnd).ReadString('\n')
	if want := `{"revision":2,"answers":[{"app":"web","address":"a","verdict":"value"}]}` + "\n"; line != want {
		t.Errorf("reported %q, %v, want %q", line, err, want)
	}
	r.Report(bootstrap.Report{Revision: 3}) // it is not read
	childEnd.Close()
	if err := <-ended; !errors.Is(err, bootstrap.ErrGone) {
		t.Errorf("Run = %v, want ErrGone", err)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func FuzzReader(f *testing.F) {
	for _, seed := range []string{"", webUp + webDown, "null\n", `{"signals":[{"app":"web","down":"` + "\xff" + `"}]}` + "\n", "[]\n", "{\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, stream string) {
		r := bootstrap.NewReader()
		if err := r.Run(oneWay{strings.NewReader(stream)}); err == nil {
			t.Fatal("Run = nil, want why it ended")
		}
		if e := r.Entry("web"); e.App != "web" {
			t.Fatalf("entry of web is %+v", e)
		}
	})
}
