package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// dashboardLink is the line of "weir up" with the link for a browser.
var dashboardLink = regexp.MustCompile(`  dashboard  (http://127\.0\.0\.1:\d+)/\?token=(\S+)`)

// link returns the address and the token of the dashboard.
func (u *upProcess) link(tb testing.TB) (address, token string) {
	tb.Helper()
	found := dashboardLink.FindStringSubmatch(u.output())
	if found == nil {
		tb.Fatalf("weir up prints no link to a dashboard:\n%s", u.output())
	}
	return found[1], found[2]
}

// The link of "weir up" opens the pages of its pool in a browser, and its token the HTTP API with orders. Without the
// token nothing opens. The page of the pool has the cause of missing instances. The dashboard has the same token after a kill, and the next start has it too.
func TestUpPrintsALinkToItsDashboard(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	u := startUp(t, data)
	address, token := u.link(t)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, Timeout: patience}
	page := func(url string, want ...string) func() error {
		return func() error {
			r, err := browser.Get(url)
			if err != nil {
				return err
			}
			defer r.Body.Close()
			body, err := io.ReadAll(r.Body)
			for _, text := range append(want, "</html>") {
				if err == nil && !strings.Contains(string(body), text) {
					return fmt.Errorf("GET %s: %s without %q: %.300s", url, r.Status, text, body)
				}
			}
			return err
		}
	}
	for _, path := range []string{"/", "/pools/local/default", "/api/v1/pools"} {
		if got := status(t, "GET", address+path, ""); got != http.StatusUnauthorized {
			t.Errorf("GET %s without a token: status %d", path, got)
		}
	}
	eventually(t, "the page of all pools", page(address+"/?token="+token, "default"))
	eventually(t, "the page of the pool", page(address+"/pools/local/default", "/assets/", "default"))
	u.weir(t, "app", "set", "typo", "--cpus", "50", "--command", "exec sleep 1000")
	eventually(t, "the cause of a missing instance", page(address+"/pools/local/default",
		"app typo: 1 of 1 instance missing (no machine of the pool can hold a copy of typo: it needs 50 cpus, the largest machine (group blue) has 1 cpus)"))
	if got := status(t, "POST", address+"/api/v1/pools/local/default/pause", token); got != http.StatusOK {
		t.Errorf("a pause with the token: status %d", got)
	}
	if text := u.weir(t, "status"); !strings.Contains(text, "paused") || !strings.Contains(text, "from a test") {
		t.Errorf("weir status does not show the pause:\n%s", text)
	}

	killRole("web")(&faultWorld{T: t, data: data, u: u})
	eventually(t, "the page after a kill of the dashboard", page(address+"/pools", "default"))
	u.end(t)

	path := filepath.Join(data, "web.tokens")
	again := startUp(t, data)
	if _, kept := again.link(t); kept != token {
		t.Error("the next start has another token")
	}
	again.end(t)
	if err := os.WriteFile(path, []byte("operator local"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, other := startUp(t, data).link(t); other == token {
		t.Error("a damaged file still has the token")
	}
	if aside, err := filepath.Glob(path + ".damaged-*"); err != nil || len(aside) != 1 {
		t.Errorf("files set aside: %v, %v", aside, err)
	}
}

// status sends a request with a bearer token, or without one, and returns the status of the response.
func status(tb testing.TB, method, url, token string) int {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), method, url, strings.NewReader(`{"reason": "from a test"}`))
	if err != nil {
		tb.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}
