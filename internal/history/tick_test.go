package history

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
)

// A ledger that is not read up to its end has no last decision: the last record that was
// read is an old one.
func TestLastDecisionOfALedgerReadInPart(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		err  error
		want bool
	}{{"read to its end", nil, true}, {"read in part", context.DeadlineExceeded, false}} {
		got := lastDecided(time.Now(), func(_ time.Time, visit func(api.TickRecord) error) error {
			if err := visit(api.TickRecord{Case: &api.Case{}}); err != nil {
				return err
			}
			return tc.err
		})
		if (got != nil) != tc.want {
			t.Errorf("%s: last decision %v, want one: %t", tc.name, got, tc.want)
		}
	}
}

// A record with unknown keys is read. One of a newer schema or of too many bytes is refused with what to do.
func TestReadRecord(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"schema":1,"added_later":{}}`: "", "": "unexpected end", `{"at":"noon"}`: "another version of weir wrote it",
		fmt.Sprintf(`{"schema":%d}`, resolve.Schema+1): "use the newer weir", strings.Repeat(" ", MaxRecord+1): "want at most",
	} {
		if _, err := ReadRecord([]byte(text)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("ReadRecord(%.40q) = %v, want %q", text, err, want)
		}
	}
}

// FuzzReadRecord makes a summary of each record that can be read.
func FuzzReadRecord(f *testing.F) {
	for _, r := range []api.TickRecord{{}, {Case: &api.Case{}, Result: &api.CaseResult{}, Detail: &api.TickDetail{}}} {
		data, err := json.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := ReadRecord(data); err == nil {
			SummaryOf(r)
		}
	})
}

// A tick that arrives twice has events once, because NATS may publish it again. A dry run has none.
func TestRepeatedTickHasNoEvents(t *testing.T) {
	t.Parallel()
	acted := api.Summary{At: noon, Actions: []api.ActionSummary{{Op: api.OpSetTarget, Group: "blue", Target: 3, Calls: 1}}}
	dry := acted
	dry.At, dry.DryRun = noon.Add(time.Second), true
	var q sequence
	for i, test := range []struct {
		tick   api.Summary
		events int
	}{{acted, 1}, {acted, 0}, {dry, 0}} {
		if got := q.next(test.tick).Events(); len(got) != test.events {
			t.Errorf("tick %d has %d events, want %d", i, len(got), test.events)
		}
	}
}

// A yank of the running release is a warning, once, and its end an event.
func TestYankEvents(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var q sequence
	tick := func(version, yanked string) []api.Event {
		at = at.Add(time.Minute)
		return q.next(api.Summary{Pool: "web", At: at, Target: new(4.0), Apps: []api.AppSummaryTick{{Name: "shop", Version: version, Yanked: yanked}}}).Events()
	}
	tick("v1", "")
	for _, c := range []struct {
		version, yanked, text string
		severity              api.Severity
	}{
		{"v1", "it leaks", "release of app shop none -> v1 is yanked: it leaks", api.SeverityWarning},
		{"v1", "it leaks", "", ""},
		{"v2", "", "release of app shop v1 is yanked: it leaks -> none", api.SeverityInfo},
	} {
		events := tick(c.version, c.yanked)
		if c.text == "" && len(events) == 0 {
			continue
		}
		if len(events) != 1 || events[0].Text != c.text || events[0].Severity != c.severity {
			t.Errorf("%+v, want %q of severity %s", events, c.text, c.severity)
		}
	}
}

// The begin, the halt and the end of a rotation are changes of a decision. Its progress is no change, and a halt is a warning.
func TestRotationEvents(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var q sequence
	tick := func(r *api.RotationSummary) []api.Event {
		at = at.Add(time.Minute)
		return q.next(api.Summary{Pool: "web", At: at, Target: new(4.0), Rotation: r}).Events()
	}
	tick(nil)
	for _, c := range []struct {
		rotation *api.RotationSummary
		text     string // empty: no event
		severity api.Severity
	}{
		{&api.RotationSummary{Left: 4}, "rotation none -> in progress", api.SeverityInfo},
		{&api.RotationSummary{Left: 3, Replaced: 1}, "", ""},
		{&api.RotationSummary{Left: 3, Alarms: []string{"rotation halted: a bad image"}}, "rotation in progress -> rotation halted: a bad image", api.SeverityWarning},
		{nil, "rotation rotation halted: a bad image -> none", api.SeverityInfo},
	} {
		events := tick(c.rotation)
		if c.text == "" && len(events) == 0 {
			continue
		}
		if len(events) != 1 || events[0].Text != c.text || events[0].Severity != c.severity {
			t.Errorf("%+v, want %q of severity %s", events, c.text, c.severity)
		}
	}
}
