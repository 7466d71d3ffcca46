package bootstrap_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/bootstrap"
)

const (
	webUp   = `{"revision":1,"signals":[{"app":"web","address":"a-b-web-socket","group":7,"version":"v1"}]}` + "\n"
	webDown = `{"revision":2,"signals":[{"app":"web","address":"a-b-web-socket","down":"why"}]}` + "\n"
)

func TestReader(t *testing.T) {
	entryUp := bootstrap.Entry{App: "web", Address: "a-b-web-socket", Group: 7, Version: "v1"}
	entryDown := bootstrap.Entry{App: "web", Address: "a-b-web-socket", Down: "why"}
	unknown := bootstrap.Entry{App: "web", Down: "bootstrap has no signal for it"}
	const mebibyte = 1 << 20
	padded := func(size int) string { // a revision of that many bytes, the line's end not counted
		line := strings.TrimSuffix(webUp, "\n")
		return line + strings.Repeat(" ", size-len(line)) + "\n"
	}
	for _, c := range []struct {
		name, stream string
		want         bootstrap.Entry
		err          string
		first        bool // a revision came
	}{
		{"nothing", "", unknown, "bootstrap is gone", false},
		{"one revision", webUp, entryUp, "bootstrap is gone", true},
		{"two revisions", webUp + webDown, entryDown, "bootstrap is gone", true},
		{"cut off in a line", webUp + webDown[:40], entryUp, "bootstrap is gone", true},
		{"cut off before the line's end", webUp + webDown[:len(webDown)-1], entryUp, "bootstrap is gone", true},
		{"a revision without signals", webUp + "{}\n", unknown, "bootstrap is gone", true},
		{"keys of a later version", `{"x":1,"signals":[{"app":"web","address":"a-b-web-socket","down":"why","y":[]}]}` + "\n", entryDown, "bootstrap is gone", true},
		{"empty line", webUp + "\n" + webDown, entryUp, "read directory: unexpected end of JSON input", true},
		{"garbage", webUp + "garbage\n" + webDown, entryUp, "read directory: invalid character 'g' looking for beginning of value", true},
		{"null", webUp + "null\n", unknown, "bootstrap is gone", true},
		{"wrong type", `{"signals":[{"app":5}]}` + "\n", unknown, "read directory: json: cannot unmarshal number into Go struct field Entry.signals.app of type string", false},
		{"group too large", `{"signals":[{"app":"web","group":1e30}]}` + "\n", unknown, "read directory: json: cannot unmarshal number 1e30 into Go struct field Entry.signals.group of type int", false},
		{"huge line", padded(mebibyte - 1), entryUp, "bootstrap is gone", true},
		{"too long line", padded(mebibyte), unknown, "read directory: bufio.Scanner: token too long", false},
		{"too long and no end", strings.Repeat("x", 3*mebibyte), unknown, "read directory: bufio.Scanner: token too long", false},
	} {
		streams := map[string]io.Reader{
			"":                 strings.NewReader(c.stream),
			", data with EOF":  iotest.DataErrReader(strings.NewReader(c.stream)),
			", in half pieces": iotest.HalfReader(strings.NewReader(c.stream)),
		}
		if len(c.stream) < mebibyte/2 {
			streams[", byte for byte"] = iotest.OneByteReader(strings.NewReader(c.stream))
		}
		for name, stream := range streams {
			t.Run(c.name+name, func(t *testing.T) {
				r := bootstrap.NewReader()
				err := r.Run(stream)
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
	err := r.Run(io.MultiReader(strings.NewReader(webUp), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || errors.Is(err, bootstrap.ErrGone) {
		t.Errorf("Run = %v, want the stream's error and not ErrGone", err)
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
		if err := r.Run(strings.NewReader(stream)); err == nil {
			t.Fatal("Run = nil, want why it ended")
		}
		if e := r.Entry("web"); e.App != "web" {
			t.Fatalf("entry of web is %+v", e)
		}
	})
}
