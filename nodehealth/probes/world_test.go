package probes

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/netguard"
	"github.com/weirkeeper/weirkeeper/nodehealth"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// loopback returns the networks of the test servers.
func loopback() netguard.Networks { return netguard.Networks{netip.MustParsePrefix("127.0.0.0/8")} }

// configOf returns a configuration with two attempts of at most 9 s, 20 ms apart, in a round of a minute. A test of a target that
// does not respond sets mutely.
func configOf(change func(*judge.Options)) Config {
	o := judge.Options{
		PollURL: "http://{private_ip}/healthz", PollTimeout: new(judge.Duration(9 * time.Second)),
		PollRetryLimit: new(2), PollRetryInterval: new(judge.Duration(20 * time.Millisecond)),
	}
	if change != nil {
		change(&o)
	}
	p := judge.Policy{Detection: judge.Detection{Modes: []judge.DetectionMode{{Type: api.DetectPollURL, Options: o}}}}.WithDefaults()
	return Config{Options: p.Detection.Modes[0].Options, Interval: time.Minute, Allowed: loopback()}
}

// mutely is the time limit of a request to a target that does not respond.
const mutely = judge.Duration(300 * time.Millisecond)

func newProber(t testing.TB, c Config) *Prober {
	t.Helper()
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

type report struct {
	verdict api.HealthVerdict
	why     string
}

// probe returns the reports of a round, and fails if a target is reported twice.
func probe(t testing.TB, p *Prober, urls ...string) []report {
	t.Helper()
	targets := make([]nodehealth.Target, len(urls))
	at := map[string]int{}
	for i, u := range urls {
		targets[i] = nodehealth.Target{Node: fmt.Sprintf("i-%d", i), URL: u}
		at[targets[i].Node] = i
	}
	out := make([]report, len(urls))
	err := p.Probe(t.Context(), targets, func(node string, v api.HealthVerdict, why string) {
		i, ok := at[node]
		if !ok {
			t.Errorf("%s is told, which is none or was told", node)
		}
		delete(at, node)
		out[i] = report{v, why}
	})
	if err != nil || len(at) > 0 {
		t.Errorf("Probe = %v, not told: %v", err, at)
	}
	return out
}

// serve responds until the test ends.
func serve(t testing.TB, handle http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handle)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// mute accepts connections and never responds.
func mute(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				_, _ = io.Copy(io.Discard, c)
			})
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return "http://" + l.Addr().String() + "/"
}

// hole never accepts, and its queue is full: a client gets no response at all.
func hole(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	at := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for { // fill the queue
		c, err := net.DialTimeout("tcp", at, 100*time.Millisecond)
		if err != nil {
			return "http://" + at + "/"
		}
		t.Cleanup(func() { c.Close() })
	}
}
