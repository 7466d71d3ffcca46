package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/webtest"
)

// A pool at its maximum whose signals hang: three clicks in Chromium lead from the link of "weir up" to the pool, to a
// tick, and to the rule that limited it. Each tick is the same in the plots, in the HTTP API and in the ledger.
func TestDashboardOfFaults(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	w := &faultWorld{T: t, data: data, u: startUp(t, data)}
	u := w.u
	began := time.Now()
	u.weir(t, "app", "set", "web", "--instances", "60", "--yes", "--cpus", "0.5", "--mem", "16", "--command", "exec sleep 100000")
	firstLine := func(words string) {
		t.Helper()
		eventually(t, "a status with "+words, func() error {
			if out := u.run("status").stdout; !strings.Contains(out, words) {
				return errors.New(out)
			}
			return nil
		})
	}
	firstLine("but scaling_limits.max_capacity is 20")
	firstLine("20 instances of web wait")
	firstLine("target 20, joined 20")
	defer w.hang("signal")()
	firstLine("signal of app apps")
	address, token := u.link(t)

	b := webtest.Browse(t, 1440, 1000, false)
	b.Run(chromedp.Navigate(address+"/?token="+token), chromedp.WaitVisible("#fleet", chromedp.ByQuery))
	if got := b.Text("h1"); got != "The pool needs attention" {
		t.Errorf("the headline is %q", got)
	}
	b.Run(chromedp.Click(`//a[text()="default"]`), chromedp.WaitVisible("#plots", chromedp.ByQuery))
	for _, want := range []string{"Instances missing", "Signal failed"} { // bootstrap starts the signals again and again
		b.Await(`document.querySelector(".states").textContent.includes("` + want + `")`)
	}
	if got := b.Text(`.ranges [aria-current]`); got != "since the pool exists" {
		t.Errorf("the page of a new pool shows %q, want the time since the pool exists", got)
	}
	b.Shots("up-pool")
	b.Run(chromedp.Click(".changes tbody a", chromedp.ByQuery), chromedp.WaitVisible(".waterfall", chromedp.ByQuery))
	if got := b.Text(".waterfall .changed:last-child"); !strings.Contains(got, "max_capacity allows 20") {
		t.Errorf("the deciding rule is %q", got)
	}
	b.Shots("up-decision")

	d := &dashboardNumbers{T: t, u: u, address: address, token: token, from: began, to: time.Now()}
	d.compare()
}

// hang halts the processes of a role, and those that replace them, until the returned function is called.
func (w *faultWorld) hang(role string) (end func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		again := time.NewTicker(100 * time.Millisecond)
		defer again.Stop()
		for {
			select {
			case <-done:
				return
			case <-again.C:
			}
			for _, p := range processesWith(w.data) {
				if p.role() == role {
					_ = syscall.Kill(number(p.id), syscall.SIGSTOP) // it may have ended
				}
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

// dashboardNumbers compares what three sources have of the ticks of a time.
type dashboardNumbers struct {
	*testing.T
	u              *upProcess
	address, token string
	from, to       time.Time
}

// get reads JSON from the dashboard.
func (d *dashboardNumbers) get(path string, more url.Values) []byte {
	d.Helper()
	q := url.Values{"from": {d.from.UTC().Format(time.RFC3339Nano)}, "to": {d.to.UTC().Format(time.RFC3339Nano)}}
	maps.Copy(q, more)
	r, err := http.NewRequestWithContext(d.Context(), http.MethodGet, d.address+path+"?"+q.Encode(), nil)
	if err != nil {
		d.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+d.token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		d.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		d.Fatalf("GET %s: %s: %v: %.300s", path, response.Status, err, body)
	}
	return body
}

// ledger returns the summary of each record.
func (d *dashboardNumbers) ledger() map[int64]api.Summary {
	d.Helper()
	out := map[int64]api.Summary{}
	text := d.u.weir(d.T, "explain", "--since", (time.Since(d.from) + time.Minute).Round(time.Second).String(), "--output", "json")
	for lines := json.NewDecoder(strings.NewReader(text)); ; {
		var line json.RawMessage
		if err := lines.Decode(&line); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			d.Fatal(err)
		}
		r := decodeSeconds[api.TickRecord](d.T, line)
		out[r.At.UnixMilli()] = history.SummaryOf(r)
	}
}

// decodeSeconds decodes JSON with durations in seconds.
func decodeSeconds[T any](tb testing.TB, data []byte) (out T) {
	tb.Helper()
	data, err := seconds.Back[T](data)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// compare compares every tick in the plots with the API, and every tick of the API with the ledger.
func (d *dashboardNumbers) compare() {
	d.Helper()
	var plots struct {
		Times  []int64
		Values map[string][]*float64
	}
	if err := json.Unmarshal(d.get("/pools/local/default", url.Values{"part": {"series"}}), &plots); err != nil {
		d.Fatal(err)
	}
	ticks := decodeSeconds[struct {
		Ticks []api.Summary `json:"ticks"`
	}](d.T, d.get("/api/v1/pools/local/default/ticks", url.Values{"limit": {"1000"}})).Ticks
	ledger, columns := d.ledger(), map[int64]int{}
	for column, at := range plots.Times {
		columns[at] = column
	}
	compared, changes := 0, 0
	for _, s := range ticks {
		at := s.At.UnixMilli()
		if recorded, ok := ledger[at]; ok && asJSON(d.T, s) != asJSON(d.T, recorded) {
			d.Errorf("the tick at %v differs:\nAPI    %s\nledger %s", s.At, asJSON(d.T, s), asJSON(d.T, recorded))
		}
		column, ok := columns[at]
		if !ok || s.Target == nil {
			continue
		}
		compared++
		if *s.Target != *s.Before {
			changes++
		}
		want := map[string]*float64{
			"target": s.Target, "unlimited": cmp.Or(s.Unlimited, s.Wanted), "joined": &s.Joined, "min": &s.Limits.Min, "max": s.Limits.Max, "offered": s.Offered[0], "setpoint": &s.Setpoint,
		}
		for _, g := range s.Groups {
			want["g:"+g.ID] = new(float64(g.Exists))
		}
		for _, a := range s.Apps {
			want["q:"+a.Name] = a.Request[0]
		}
		for key, x := range want {
			values := plots.Values[key]
			if values == nil || !equalValues(values[column], x) {
				d.Errorf("%s at %v: the plot has %v, the API %v", key, s.At, number64(values, column), asJSON(d.T, x))
			}
		}
	}
	d.Logf("%d ticks of the API, %d in the ledger, %d in the plots; %d of these change the target", len(ticks), len(ledger), compared, changes)
	if compared < 5 || changes == 0 || len(ledger) < compared {
		d.Error("too few ticks are compared")
	}
}

// equalValues compares values of a plot, which are rounded to the precision of a float32, with those of a tick.
func equalValues(plot, tick *float64) bool {
	if plot == nil || tick == nil {
		return plot == tick
	}
	return fmt.Sprintf("%.5g", *plot) == fmt.Sprintf("%.5g", *tick)
}

// number64 returns a value for an error message.
func number64(values []*float64, column int) string {
	if values == nil {
		return "no such line"
	}
	if values[column] == nil {
		return "a gap"
	}
	return fmt.Sprint(*values[column])
}

func asJSON(tb testing.TB, v any) string {
	tb.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}
