package probes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/nodehealth"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

func wantReport(t *testing.T, got report, verdict api.HealthVerdict, says string) {
	t.Helper()
	if got.verdict != verdict || !strings.Contains(got.why, says) || len(got.why) > 300 {
		t.Errorf("%s: %q, want %s: ...%s...", got.verdict, got.why, verdict, says)
	}
}

func TestAnswers(t *testing.T) {
	var other atomic.Value
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ok":
			fmt.Fprint(w, "state: healthy")
		case "/empty":
			w.WriteHeader(http.StatusNoContent)
		case "/sick":
			fmt.Fprint(w, "state: sick")
		case "/500":
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, "healthy")
		case "/told": // 200 MB, with a Content-Length
			w.Header().Set("Content-Length", "200000000")
			fmt.Fprint(w, "healthy")
		case "/large": // 200 MB
			part := make([]byte, 1<<20)
			for range 200 {
				if _, err := w.Write(part); err != nil {
					return
				}
			}
		case "/endless":
			for r.Context().Err() == nil {
				fmt.Fprint(w, "healthy ")
				if http.NewResponseController(w).Flush() != nil {
					return
				}
				select {
				case <-time.After(20 * time.Millisecond):
				case <-r.Context().Done():
				}
			}
		case "/headers":
			w.Header().Set("X", strings.Repeat("x", 1<<20))
		case "/again":
			http.Redirect(w, r, "/ok", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/away":
			http.Redirect(w, r, other.Load().(string), http.StatusFound)
		case "/cut":
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "healthy")
		}
	})
	reached := atomic.Bool{}
	away := serve(t, func(http.ResponseWriter, *http.Request) { reached.Store(true) })
	other.Store(strings.Replace(away.URL, "127.0.0.1", "127.0.0.2", 1))
	refused := httptest.NewServer(nil)
	refused.Close()
	for _, test := range []struct {
		name, url      string
		verdict, asset api.HealthVerdict // with poll_url_conn_error_as_unhealthy, and without
		says           string
	}{
		{"healthy", server.URL + "/ok", api.CheckOK, api.CheckOK, "status 200"},
		{"nothing", server.URL + "/empty", api.CheckFail, api.CheckFail, "no match in the response for healthy$|healthy"},
		{"no pattern", server.URL + "/sick", api.CheckFail, api.CheckFail, "no match in the response for healthy$|healthy, in the last of 2 attempts"},
		{"500", server.URL + "/500", api.CheckFail, api.CheckFail, "status 500"},
		{"200 MB", server.URL + "/large", api.CheckFail, api.CheckUnknown, "longer than 512 KiB"},
		{"200 MB foretold", server.URL + "/told", api.CheckFail, api.CheckUnknown, "longer than 512 KiB"},
		{"endless", server.URL + "/endless", api.CheckFail, api.CheckUnknown, "no response within 300ms"},
		{"long headers", server.URL + "/headers", api.CheckFail, api.CheckUnknown, ""},
		{"cut off", server.URL + "/cut", api.CheckFail, api.CheckUnknown, "unexpected EOF"},
		{"redirect", server.URL + "/again", api.CheckOK, api.CheckOK, ""},
		{"redirect without end", server.URL + "/loop", api.CheckFail, api.CheckUnknown, "more than 5 times"},
		{"redirect elsewhere", server.URL + "/away", api.CheckFail, api.CheckUnknown, "to another host"},
		{"refused", refused.URL, api.CheckFail, api.CheckUnknown, "connection refused"},
		{"mute", mute(t), api.CheckFail, api.CheckUnknown, "no response within 300ms, in the last of 2 attempts"},
		{"mute, and TLS", strings.Replace(mute(t), "http:", "https:", 1), api.CheckFail, api.CheckUnknown, "no response within 300ms"},
		{"black hole", hole(t), api.CheckFail, api.CheckUnknown, "no response within 300ms, in the last of 2 attempts"},
		{"outside", "http://192.0.2.1/", api.CheckUnknown, api.CheckUnknown, "outside the allowed networks"},
		{"metadata", "http://169.254.169.254/latest", api.CheckUnknown, api.CheckUnknown, "outside the allowed networks"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			change := func(o *judge.Options) {
				o.PollHealthyResponse = "healthy$|healthy "
				if strings.HasPrefix(test.says, "no response") {
					o.PollTimeout = new(mutely)
				}
			}
			p := newProber(t, configOf(change))
			wantReport(t, probe(t, p, test.url)[0], test.verdict, test.says)
			p = newProber(t, configOf(func(o *judge.Options) {
				change(o)
				o.PollErrorAsUnhealthy = new(false)
			}))
			wantReport(t, probe(t, p, test.url)[0], test.asset, test.says)
		})
	}
	t.Cleanup(func() {
		if reached.Load() {
			t.Error("a redirect to another host was followed")
		}
	})
}

func TestAnyAnswerWithoutAPattern(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	wantReport(t, probe(t, newProber(t, configOf(nil)), server.URL)[0], api.CheckOK, "status 200")
}

func TestTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	wantReport(t, probe(t, newProber(t, configOf(nil)), server.URL)[0], api.CheckFail, "certificate")
	lax := newProber(t, configOf(func(o *judge.Options) { o.PollVerify = new(false) }))
	wantReport(t, probe(t, lax, server.URL)[0], api.CheckOK, "")
}

// A healthy node gets one GET, whatever the time between attempts.
func TestOneGet(t *testing.T) {
	for _, between := range []time.Duration{time.Second, 0, 100 * time.Second} {
		var asked []string
		server := serve(t, func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.Method)
			fmt.Fprint(w, "it is healthy ")
		})
		c := configOf(func(o *judge.Options) {
			o.PollRetryInterval, o.PollHealthyResponse = new(judge.Duration(between)), "healthy"
		})
		c.Interval = 10 * time.Minute
		p := newProber(t, c)
		wantReport(t, probe(t, p, server.URL)[0], api.CheckOK, "")
		server.Close()
		if len(asked) != 1 || asked[0] != http.MethodGet {
			t.Errorf("every %v: asked %v, want one GET", between, asked)
		}
	}
}

// Attempts are counted in all, and a good one ends them.
func TestAttempts(t *testing.T) {
	for _, test := range []struct {
		name          string
		limit, goodAt int
		verdict       api.HealthVerdict
		want          int32
	}{
		{"never good", 4, 0, api.CheckFail, 4},
		{"good at once", 4, 1, api.CheckOK, 1},
		{"good at last", 4, 4, api.CheckOK, 4},
		{"too late", 1, 2, api.CheckFail, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var n atomic.Int32
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if int(n.Add(1)) != test.goodAt {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			})
			p := newProber(t, configOf(func(o *judge.Options) { o.PollRetryLimit = new(test.limit) }))
			wantReport(t, probe(t, p, server.URL)[0], test.verdict, "")
			if n.Load() != test.want {
				t.Errorf("%d attempts, want %d", n.Load(), test.want)
			}
		})
	}
}

// The name resolves to another address from the second time on.
func TestRebinding(t *testing.T) {
	var asked, hits atomic.Int32
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if hits.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if r.URL.Path == "/" {
			http.Redirect(w, r, "/there", http.StatusFound)
		}
	})
	c := configOf(nil)
	c.Resolve = func(context.Context, string) ([]netip.Addr, error) {
		if asked.Add(1) == 1 {
			return []netip.Addr{netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("127.0.0.1")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("169.254.169.254")}, nil
	}
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	p := newProber(t, c)
	name := "http://node.example:" + at.Port() + "/"
	wantReport(t, probe(t, p, name)[0], api.CheckOK, "")
	if asked.Load() != 1 || hits.Load() != 3 {
		t.Errorf("resolved %d times, asked %d times, want 1 and 3", asked.Load(), hits.Load())
	}
	wantReport(t, probe(t, p, name)[0], api.CheckUnknown, "outside the allowed networks")
	if hits.Load() != 3 {
		t.Error("the address outside was asked")
	}
}

func TestNoName(t *testing.T) {
	c := configOf(nil)
	c.Resolve = func(context.Context, string) ([]netip.Addr, error) {
		return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
	}
	wantReport(t, probe(t, newProber(t, c), "http://node.example/")[0], api.CheckUnknown, "no such host")
}

// Three of ten nodes accept the request and never respond, or do not accept it. One after the other they would take longer than
// the round, and the rest would be unknown.
func TestRoundEndsInTime(t *testing.T) {
	c := configOf(func(o *judge.Options) { o.PollTimeout, o.PollRetryLimit = new(judge.Duration(2*time.Second)), new(1) })
	c.Interval = 20 * time.Second
	urls := targets(t, 100)
	got := probe(t, newProber(t, c), urls...)
	for i, g := range got {
		if want := wantOf(i); g.verdict != want {
			t.Fatalf("%s: %s: %q, want %s", urls[i], g.verdict, g.why, want)
		}
	}
}

// targets returns n URLs, of which 30 in 100 never respond, in two ways.
func targets(t testing.TB, n int) []string {
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	holes := []string{mute(t), hole(t)}
	urls := make([]string, n)
	for i := range urls {
		urls[i] = server.URL
		if wantOf(i) == api.CheckFail {
			urls[i] = holes[i%2]
		}
	}
	return urls
}

func wantOf(i int) api.HealthVerdict {
	if i*7%10 < 3 {
		return api.CheckFail
	}
	return api.CheckOK
}

// If a round cannot probe all targets in time, the next round begins with the rest.
func TestRoundThatIsTooLong(t *testing.T) {
	c := configOf(func(o *judge.Options) { o.PollTimeout, o.PollRetryLimit = new(mutely), new(1) })
	c.Interval, c.Workers = 700*time.Millisecond, 1
	p := newProber(t, c)
	black := mute(t)
	urls := []string{black, black, black, black, black}
	failed := map[int]bool{}
	for rounds := 0; len(failed) < len(urls); rounds++ {
		again := false
		for i, g := range probe(t, p, urls...) {
			if g.verdict == api.CheckFail {
				again, failed[i] = again || failed[i], true
			} else {
				wantReport(t, g, api.CheckUnknown, "the round ended after 0 of 1 attempts")
			}
		}
		if again && len(failed) < len(urls) || rounds == 50 {
			t.Fatalf("in round %d a target is probed again, and only %v were probed so far", rounds, failed)
		}
	}
}

func TestRoundIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	p := newProber(t, configOf(func(o *judge.Options) { o.PollTimeout = new(judge.Duration(25 * time.Second)) }))
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	black := mute(t)
	err := p.Probe(ctx, []nodehealth.Target{{Node: "a", URL: black}, {Node: "b", URL: server.URL}}, func(node string, _ api.HealthVerdict, _ string) {
		if node != "b" {
			t.Errorf("%s is told", node)
		}
		cancel(enough)
	})
	if !errors.Is(err, enough) { // a wait for the timeout would tell node a
		t.Errorf("Probe = %v", err)
	}
	if err := p.Probe(t.Context(), nil, nil); err != nil {
		t.Error(err)
	}
}

// Results that are there when ctx ends are not reported.
func TestEndedRoundReportsNothing(t *testing.T) {
	const n = 20
	answered := make(chan struct{}, n)
	server := serve(t, func(http.ResponseWriter, *http.Request) { answered <- struct{}{} })
	targets := make([]nodehealth.Target, n)
	for i := range targets {
		targets[i] = nodehealth.Target{Node: fmt.Sprint("n-", i), URL: server.URL}
	}
	ctx, cancel := context.WithCancel(t.Context())
	reported := 0
	err := newProber(t, configOf(func(o *judge.Options) {})).Probe(ctx, targets, func(string, api.HealthVerdict, string) {
		if reported++; reported > 1 {
			return
		}
		for range n {
			<-answered
		}
		cancel()
	})
	if !errors.Is(err, context.Canceled) || reported != 1 {
		t.Errorf("Probe = %v, %d reports, want 1", err, reported)
	}
}

// BenchmarkRound prints how long a round over 1000 nodes takes with the defaults. 30 in 100 never
// respond.
func BenchmarkRound(b *testing.B) {
	p := judge.Policy{Detection: judge.Detection{Modes: []judge.DetectionMode{{Type: api.DetectPollURL}}}}.WithDefaults()
	o := p.Detection.Modes[0].Options
	o.PollURL = "http://{private_ip}/"
	c := Config{Options: o, Interval: time.Duration(*o.Interval), Allowed: loopback()}
	urls := targets(b, 1000)
	prober := newProber(b, c)
	for b.Loop() {
		for i, g := range probe(b, prober, urls...) {
			if g.verdict != wantOf(i) {
				b.Fatalf("%s: %s: %q", urls[i], g.verdict, g.why)
			}
		}
	}
	took := b.Elapsed() / time.Duration(b.N)
	b.ReportMetric(took.Seconds(), "s/round")
	b.ReportMetric(float64(took)/float64(c.Interval), "x-interval")
}
