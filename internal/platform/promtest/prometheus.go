// Package promtest runs servers with the API of Prometheus in tests: Prometheus and VictoriaMetrics of Debian, and the
// checker promtool.
//
// [Program] returns the path of a program. [Start] runs a Prometheus with a scrape target and alert rules, and
// Server.Expect waits for alerts. [Storage] runs a server that accepts series by remote write. The cleanup of the test
// stops each server. Tests may run several servers concurrently.
package promtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
)

// Program returns the path of prometheus or promtool.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := testprograms.Prometheus(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// wait is the pending time of a rule.
var wait = regexp.MustCompile(`(?m)^(\s*for:).*$`)

// Start starts a Prometheus that scrapes the target's /metrics periodically, and evaluates the rules of the file without
// their pending times. A scrape may take a whole period. The server ends with the test.
func Start(t testing.TB, target, rules string, every time.Duration) *Server {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(rules)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "rules.yml"), wait.ReplaceAll(text, []byte("$1 0s")), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return run(t, prometheus(t, dir, fmt.Sprintf("global: {scrape_interval: %[1]dms, scrape_timeout: %[1]dms, evaluation_interval: 100ms}\nrule_files: [rules.yml]\n"+
		"scrape_configs: [{job_name: weir, static_configs: [{targets: [%[2]q]}]}]\n", every.Milliseconds(), strings.TrimPrefix(target, "http://"))))
}

// limit is how long an alert may take to fire or to end on a busy machine.
const limit = 3 * time.Minute

// Expect waits until exactly these alerts fire.
func (s *Server) Expect(what string, alerts ...string) {
	s.t.Helper()
	slices.Sort(alerts)
	end, tick := time.After(limit), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for {
		firing, err := s.firing()
		if err == nil && slices.Equal(firing, alerts) {
			return
		}
		select {
		case <-end:
			s.t.Fatalf("%s: the alerts %q fire (%v), want %q", what, firing, err, alerts)
		case <-tick.C:
		}
	}
}

// firing returns the names of the alerts that fire, sorted.
func (s *Server) firing() ([]string, error) {
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Get(s.URL + "/api/v1/alerts")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var body struct {
		Data struct {
			Alerts []struct {
				Labels map[string]string `json:"labels"`
				State  string            `json:"state"`
			} `json:"alerts"`
		} `json:"data"`
	}
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
		return nil, err
	}
	names := []string{}
	for _, one := range body.Data.Alerts {
		if one.State == "firing" {
			names = append(names, one.Labels["alertname"])
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
