package readiness

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

func port(t *testing.T, address string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A check ends within its timeout, whatever the instance does.
func TestHTTPCheck(t *testing.T) {
	hangs := make(chan struct{})
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		status  int
		want    string // part of the error; empty: ready
	}{
		{"200", func(w http.ResponseWriter, r *http.Request) {}, 0, ""},
		{"302 is not followed", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }, 0, ""},
		{"404", http.NotFound, 0, "responds to /ready with status 404, want 200 to 399"},
		{"404 is expected", http.NotFound, 404, ""},
		{"200 in place of 204", func(w http.ResponseWriter, r *http.Request) {}, 204, "with status 200, want 204"},
		{"hangs", func(w http.ResponseWriter, r *http.Request) { <-hangs }, 0, "timeout"},
		{"closes", func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }, 0, "closed without a response"},
		{"a body without end", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat("x", 1<<20)); err != nil {
					return
				}
			}
		}, 0, ""},
		{"a header without end", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }, 0, "header"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(tt.handler)
			defer server.Close()
			defer func() {
				if tt.name == "hangs" {
					close(hangs)
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
			if tt.want == "timeout" {
				ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
			}
			defer cancel()
			err := checkHTTP(ctx, port(t, server.URL), api.HTTPCheck{Path: "/ready", Status: tt.status})
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestTCPCheck(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := checkTCP(t.Context(), port(t, l.Addr().String())); err != nil {
		t.Errorf("a port that listens: %v", err)
	}
	l.Close()
	if err := checkTCP(t.Context(), port(t, l.Addr().String())); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a closed port: %v", err)
	}
}

// run returns the changes within a time, with the second of each. The check fails in the seconds for which fails is true.
func run(t *testing.T, r api.Readiness, length time.Duration, fails func(second int) bool) (changes []string) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), length)
		defer cancel()
		w := Watch{Readiness: r.WithDefaults(), Began: began, Command: func(context.Context, string) error {
			if fails(int(time.Since(began).Seconds())) {
				return errors.New("exit status 1")
			}
			return nil
		}}
		w.Run(ctx, func(c Change) {
			text := strconv.Itoa(int(time.Since(began).Seconds())) + " ready"
			if !c.Ready {
				text = strconv.Itoa(int(time.Since(began).Seconds())) + " " + c.Why
			}
			changes = append(changes, text)
		})
	})
	return changes
}

func TestWatch(t *testing.T) {
	never, always := func(int) bool { return false }, func(int) bool { return true }
	between := func(from, to int) func(int) bool { return func(s int) bool { return s >= from && s < to } }
	exec := &api.ExecCheck{Command: "true"}
	after := func(d time.Duration) *api.Duration { a := api.Duration(d); return &a }
	for _, tt := range []struct {
		name  string
		r     api.Readiness
		fails func(int) bool
		want  string
	}{
		{"no check: after 10 s", api.Readiness{}, always, "10 ready"},
		{"no check, at once", api.Readiness{After: after(0)}, always, "0 ready"},
		{"a check that succeeds", api.Readiness{Exec: exec}, never, "0 ready"},
		{"after some time", api.Readiness{Exec: exec, After: after(7 * time.Second)}, never, "7 ready"},
		{"each second at first", api.Readiness{Exec: exec}, between(0, 3), "3 ready"},
		{"never", api.Readiness{Exec: exec}, always, ""},
		{"one failure is none", api.Readiness{Exec: exec}, between(4, 6), "0 ready"},
		{"three failures in a row", api.Readiness{Exec: exec}, between(5, 17), "0 ready, 15 exit status 1, 20 ready"},
		{"other numbers", api.Readiness{Exec: exec, Failures: 1, Period: api.Duration(2 * time.Second)}, between(3, 5), "0 ready, 4 exit status 1, 6 ready"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := strings.Join(run(t, tt.r, time.Minute, tt.fails), ", "); got != tt.want {
				t.Errorf("changes %q, want %q", got, tt.want)
			}
		})
	}
}
