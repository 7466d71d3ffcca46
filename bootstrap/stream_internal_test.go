package bootstrap

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeReport(t *testing.T) {
	for _, c := range []struct{ name, line, err string }{
		{"empty", `{}`, ""},
		{"answers", `{"revision":3,"answers":[{"app":"web","address":"a","verdict":"value"}]}`, ""},
		{"negative", `{"revision":-1}`, "revision -1 is negative"},
		{"too many", `{"answers":[` + strings.Repeat("{},", maxAnswers) + `{}]}`, "129 answers, at most 128"},
		{"garbage", `{"revision":`, "unexpected end of JSON input"},
		{"wrong type", `{"answers":[{"app":5}]}`, "cannot unmarshal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := decodeReport([]byte(c.line))
			if c.err == "" && err != nil || c.err != "" && !strings.Contains(fmt.Sprint(err), c.err) {
				t.Errorf("decodeReport = %v, want %q", err, c.err)
			}
		})
	}
}

func FuzzDecodeReport(f *testing.F) {
	for _, seed := range []string{`{}`, `{"revision":3,"answers":[{"app":"web","why":"` + "\xff" + `"}]}`, `null`, `[]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := decodeReport(line)
		if err != nil {
			return
		}
		for _, a := range r.Answers {
			if len(a.Why) > 3*maxRemark || len(a.Difference) > 3*maxRemark {
				t.Fatalf("answer with a text of %d and %d bytes", len(a.Why), len(a.Difference))
			}
		}
		if _, err := json.Marshal(r); err != nil {
			t.Fatal(err)
		}
	})
}

// A report of the most and longest answers fits into a line that bootstrap accepts.
func TestReportsFitTheirLine(t *testing.T) {
	r := NewReader()
	text := strings.Repeat("\x01", 3*maxRemark)
	for range 3 * maxAnswers / 2 {
		r.Report(Report{Revision: 7, Answers: []Answer{{App: strings.Repeat("\x01", maxAddress), Address: strings.Repeat("\x01", maxAddress), Version: strings.Repeat("v", 128), Verdict: VerdictFailed, Why: text, Difference: text}}})
	}
	got := 0
	for more := true; more; {
		var line []byte
		line, more = r.nextReport()
		if len(line) > maxReport {
			t.Errorf("line of %d bytes, at most %d", len(line), maxReport)
		}
		report, err := decodeReport(line)
		if err != nil || report.Revision != 7 {
			t.Fatalf("report = revision %d, %v, want 7", report.Revision, err)
		}
		got += len(report.Answers)
	}
	if want := 3 * maxAnswers / 2; got != want {
		t.Errorf("%d answers, want %d", got, want)
	}
}

func TestReportNeverWaits(t *testing.T) {
	r := NewReader()
	for i := range 2 * maxUnreported {
		r.Report(Report{Revision: i, Answers: []Answer{{App: fmt.Sprint(i)}}})
	}
	r.Report(Report{Revision: 3})
	line, _ := r.nextReport()
	first, err := decodeReport(line)
	if err != nil || first.Revision != 2*maxUnreported-1 || first.Answers[0].App != fmt.Sprint(maxUnreported) {
		t.Errorf("the first report is %d with app %q, %v: want the newest revision and the oldest answer that is kept", first.Revision, first.Answers[0].App, err)
	}
}

// peer is a stream with a test as the other end.
type peer struct {
	*stream
	conn     net.Conn
	lines    *bufio.Scanner
	received chan Answer
	hung     chan string
}

func newPeer(t *testing.T, d *Directory) *peer {
	t.Helper()
	return newPeerWith(t, d, defaultTimeouts())
}

func newPeerWith(t *testing.T, d *Directory, of timeouts) *peer {
	t.Helper()
	p := &peer{received: make(chan Answer, 10), hung: make(chan string, 1000)}
	p.stream = newStream(func() Directory { return *d }, func(a Answer) { p.received <- a }, func(why string) { p.hung <- why }, slog.New(slog.DiscardHandler))
	p.timeouts = of
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	file, err := p.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if p.conn, err = net.FileConn(file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.conn.Close() })
	p.conn.SetDeadline(time.Now().Add(time.Minute))
	p.lines = bufio.NewScanner(p.conn)
	return p
}

func (p *peer) next(t *testing.T) Directory {
	t.Helper()
	if !p.lines.Scan() {
		t.Fatalf("the stream ended: %v", p.lines.Err())
	}
	d, err := decodeDirectory(p.lines.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestStreamConfigIsSentWhenItChanges(t *testing.T) {
	d := &Directory{Config: []byte("one")}
	p := newPeer(t, d)
	first := p.next(t)
	p.wake()
	second := p.next(t)
	p.mu.Lock()
	d.Config = []byte("two")
	p.mu.Unlock()
	p.wake()
	third := p.next(t)
	got := []string{string(first.Config), string(second.Config), string(third.Config)}
	if diff := cmp.Diff([]string{"one", "", "two"}, got); diff != "" {
		t.Errorf("configurations (-want +got):\n%s", diff)
	}
}

func TestStreamFollowed(t *testing.T) {
	p := newPeer(t, &Directory{})
	first := p.next(t)
	revision := p.announce()
	if revision != first.Revision+1 {
		t.Fatalf("announce = %d after revision %d", revision, first.Revision)
	}
	fmt.Fprintf(p.conn, "{\"revision\":%d,\"answers\":[{\"app\":\"web\"}]}\n", first.Revision)
	if a := <-p.received; a.App != "web" {
		t.Errorf("received %+v, want web", a)
	}
	if d := p.next(t); d.Revision != revision {
		t.Fatalf("revision %d, want the announced %d", d.Revision, revision)
	}
	followed := make(chan bool, 1)
	go func() { followed <- p.awaitFollowed(t.Context(), revision) }()
	select {
	case <-followed:
		t.Fatal("followed before it was reported")
	case <-time.After(5 * time.Millisecond):
	}
	fmt.Fprintf(p.conn, "{\"revision\":%d}\n", revision+100) // capped at the last written revision
	if !<-followed {
		t.Error("not followed, want it followed")
	}
	if _, at, _ := p.progress(); at != revision {
		t.Errorf("followed up to %d, want %d", at, revision)
	}
}

func TestStreamEndsAutoscalerWithInvalidReports(t *testing.T) {
	for name, line := range map[string]string{"garbage": "garbage\n", "no end": strings.Repeat("x", maxReport+1)} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, &Directory{})
			p.next(t)
			p.conn.Write([]byte(line)) // an error means that it was dropped before the end
			for p.lines.Scan() {
			}
			if why := <-p.hung; !strings.Contains(why, "invalid data on the stream") {
				t.Errorf("the autoscaler is ended because %q, want nonsense", why)
			}
		})
	}
}
