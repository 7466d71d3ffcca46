package judge

import (
	"slices"
	"testing"
	"time"
)

func TestAlarmsAreSentOnce(t *testing.T) {
	as, now := alarms{after: 30 * time.Second}, start()
	for _, s := range []struct {
		name   string
		after  time.Duration
		causes []string
		sent   []string
	}{
		{"a cause begins", 0, []string{"path"}, nil},
		{"and ends soon", 20 * time.Second, nil, nil},
		{"it begins anew", 20 * time.Second, []string{"path"}, nil},
		{"a second one", 20 * time.Second, []string{"path", "zone:a"}, nil},
		{"the first has lasted", 10 * time.Second, []string{"path", "zone:a"}, []string{"path"}},
		{"the second has, too", 20 * time.Second, []string{"path", "zone:a"}, []string{"zone:a"}},
		{"both are sent", time.Hour, []string{"path", "zone:a"}, nil},
		{"one ends", 0, []string{"zone:a"}, nil},
		{"and comes back for long", 0, []string{"path", "zone:a"}, nil},
		{"which is sent again", time.Minute, []string{"path", "zone:a"}, []string{"path"}},
	} {
		now = now.Add(s.after)
		var causes []cause
		for _, key := range s.causes {
			causes = append(causes, cause{key, "why"})
		}
		var sent []string
		for _, o := range as.step(now, causes) {
			sent = append(sent, o.Alarm)
		}
		if !slices.Equal(sent, s.sent) {
			t.Errorf("%s: sent %q, want %q", s.name, sent, s.sent)
		}
		again := alarms{after: as.after}
		again.restore(now, as.all)
		as = again
	}
}
