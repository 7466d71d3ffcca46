package promtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"

	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
)

// Server is a running server with the API of Prometheus.
type Server struct {
	URL   string // http://127.0.0.1:PORT
	t     testing.TB
	flush string // path of a request that makes written points visible; empty: they are
	what  command
	kill  func()
}

// anyPort is the address of a server at a free port.
const anyPort = "127.0.0.1:0"

// command starts a server. listening finds its address in a line of its log.
type command struct {
	program   string
	args      []string
	listening *regexp.Regexp
}

// prometheus returns the command of a Prometheus with that configuration, below dir.
func prometheus(t testing.TB, dir, config string, flags ...string) command {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return command{
		program: Program(t, "prometheus"),
		args: append([]string{"--config.file", filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path", filepath.Join(dir, "data"),
			"--web.listen-address", anyPort, "--log.format", "json"}, flags...),
		listening: regexp.MustCompile(`"msg":"Listening on","address":"([^"]+)"|"address":"([^"]+)".*"msg":"Listening on"`),
	}
}

// Storage starts a Prometheus, with further flags, that accepts remote write.
func Storage(t testing.TB, flags ...string) *Server {
	t.Helper()
	return run(t, prometheus(t, t.TempDir(), "global: {}\n", append([]string{"--web.enable-remote-write-receiver"}, flags...)...))
}

// Scrape starts a Prometheus that scrapes the target's /metrics periodically, and accepts remote write. A scrape may take a whole period.
func Scrape(t testing.TB, target string, every time.Duration) *Server {
	t.Helper()
	config := fmt.Sprintf("global: {scrape_interval: %[1]dms, scrape_timeout: %[1]dms}\n"+
		"scrape_configs: [{job_name: shop, static_configs: [{targets: [%[2]q]}]}]\n", every.Milliseconds(), strings.TrimPrefix(target, "http://"))
	return run(t, prometheus(t, t.TempDir(), config, "--web.enable-remote-write-receiver"))
}

// Kill kills the server.
func (s *Server) Kill() { s.kill() }

// Restart starts a killed Prometheus with its data, at its address.
func (s *Server) Restart() {
	s.t.Helper()
	again := s.what
	again.args = slices.Clone(again.args)
	again.args[slices.Index(again.args, anyPort)] = strings.TrimPrefix(s.URL, "http://")
	s.kill = run(s.t, again).kill
}

// Victoria starts a VictoriaMetrics, which accepts remote write. It answers the newest points at once.
func Victoria(t testing.TB) *Server {
	t.Helper()
	program, err := testprograms.VictoriaMetrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := run(t, command{
		program: program,
		args: []string{"-storageDataPath", filepath.Join(t.TempDir(), "data"), "-httpListenAddr", anyPort, "-loggerFormat", "json",
			"-search.latencyOffset", "0s", "-search.disableCache", "-memory.allowedBytes", "64MB"},
		listening: regexp.MustCompile(`starting http server at http://([^/"]+)`),
	})
	s.flush = "/internal/force_flush"
	return s
}

// run starts a server, and stops it with the test.
func run(t testing.TB, what command) *Server {
	t.Helper()
	c := exec.Command(what.program, what.args...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	lines, err := c.StderrPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	log, s := bufio.NewScanner(lines), &Server{t: t, what: what}
	var seen []string
	for s.URL == "" && log.Scan() {
		seen = append(seen, log.Text())
		if found := what.listening.FindStringSubmatch(log.Text()); found != nil {
			s.URL = "http://" + strings.Join(found[1:], "")
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for log.Scan() { // so that the pipe does not fill up
			continue
		}
	}()
	s.kill = sync.OnceFunc(func() {
		_ = c.Process.Kill() // it may have ended
		<-done
		_ = c.Wait() // it was killed
	})
	t.Cleanup(s.kill)
	if s.URL == "" {
		t.Fatalf("%s does not listen:\n%s", what.program, strings.Join(seen, "\n"))
	}
	if strings.HasSuffix(s.URL, ":0") { // it logs the port that it was given
		s.URL = fmt.Sprintf("http://127.0.0.1:%d", listens(t, c.Process.Pid))
	}
	return s
}

// listens waits until a process listens at a TCP port, and returns it.
func listens(t testing.TB, pid int) int {
	t.Helper()
	end, tick := time.After(limit), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		if port := listensNow(t, pid); port != 0 {
			return port
		}
		select {
		case <-end:
			t.Fatalf("process %d listens at no port", pid)
		case <-tick.C:
		}
	}
}

// listensNow returns the TCP port at which a process listens; 0: none.
func listensNow(t testing.TB, pid int) (port int) {
	t.Helper()
	folder := fmt.Sprintf("/proc/%d/", pid)
	fds, err := filepath.Glob(folder + "fd/*")
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{}
	for _, fd := range fds {
		target, _ := os.Readlink(fd) // one that was closed is none
		own[target] = true
	}
	table, err := os.ReadFile(folder + "net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		const listening = "0A"
		f := strings.Fields(line)
		if len(f) > 9 && f[3] == listening && own["socket:["+f[9]+"]"] {
			if _, err := fmt.Sscanf(f[1][strings.IndexByte(f[1], ':')+1:], "%X", &port); err == nil {
				return port
			}
		}
	}
	return 0
}

// Series is what Write stores.
type Series struct {
	Labels map[string]string // with __name__
	Times  []time.Time
	Values []float64
}

// Write stores series by remote write, and waits until a query finds the last point of the last one.
func (s *Server) Write(all ...Series) {
	s.t.Helper()
	var request prompb.WriteRequest
	for _, one := range all {
		var series prompb.TimeSeries
		for name, value := range one.Labels {
			series.Labels = append(series.Labels, prompb.Label{Name: name, Value: value})
		}
		for i, at := range one.Times {
			series.Samples = append(series.Samples, prompb.Sample{Timestamp: at.UnixMilli(), Value: one.Values[i]})
		}
		request.Timeseries = append(request.Timeseries, series)
	}
	data, err := request.Marshal()
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.URL+"/api/v1/write", bytes.NewReader(snappy.Encode(nil, data)))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Encoding", "snappy")
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode/100 != 2 {
		s.t.Fatalf("remote write: %s: %s", answer.Status, text)
	}
	if s.flush != "" {
		flushed, err := http.Get(s.URL + s.flush)
		if err != nil {
			s.t.Fatal(err)
		}
		_ = flushed.Body.Close()
	}
	last := all[len(all)-1]
	s.Await(last.Labels["__name__"], last.Times[len(last.Times)-1])
}

// Await waits until a query finds a point of that time.
func (s *Server) Await(name string, at time.Time) {
	s.t.Helper()
	end, tick := time.After(limit), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for address := fmt.Sprintf("%s/api/v1/query?query=%s&time=%d", s.URL, url.QueryEscape(name), at.Unix()); ; {
		answer, err := http.Get(address)
		var text []byte
		if err == nil {
			text, _ = io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if bytes.Contains(text, []byte(`"value"`)) {
				return
			}
		}
		select {
		case <-end:
			s.t.Fatalf("%s has no point at %v: %s, %v", name, at, text, err)
		case <-tick.C:
		}
	}
}

// Points returns the values of all points of a range selector that ends at a time, as texts.
func (s *Server) Points(selector string, end time.Time) (values []string) {
	s.t.Helper()
	answer, err := http.Get(s.URL + "/api/v1/query?" + url.Values{"query": {selector}, "time": {fmt.Sprint(end.Unix())}}.Encode())
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	var found struct {
		Data struct{ Result []struct{ Values [][2]any } }
	}
	if err := json.NewDecoder(answer.Body).Decode(&found); err != nil {
		s.t.Fatal(err)
	}
	for _, one := range found.Data.Result {
		for _, point := range one.Values {
			values = append(values, fmt.Sprint(point[1]))
		}
	}
	return values
}
