package cloudfoundry

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// If only the first form of a nudge was sent, a repeated nudge is sent only in the second
// form. If both were sent, a repeated nudge is a new one.
func TestHalfSentNudgeIsRepeatedInOtherForm(t *testing.T) {
	s := NewSender(Features{Dialect: DialectBoth}.WithDefaults())
	start := api.Start{App: "web", Version: "v1", Indices: []int{0, 2}}
	requests := RequestsSubject(message.Partition)
	for _, tt := range []struct {
		name                 string
		noHealth, noRequests error
		want                 []string
	}{
		{"whole", nil, nil, []string{message.SubjectStart, requests}},
		{"first form fails", errors.New("away"), nil, []string{message.SubjectStart}},
		{"second form fails", nil, errors.New("away"), []string{message.SubjectStart, requests}},
		{"rest", nil, nil, []string{requests}},
		{"and whole again", nil, nil, []string{message.SubjectStart, requests}},
	} {
		start.Running = map[string]int{"v1": len(tt.name)} // may have changed by then
		var sent []string
		err := s.Send(apps.Nudge{Start: &start}, func() error {
			sent = append(sent, message.SubjectStart)
			return tt.noHealth
		}, func(subject string, _ []byte) error {
			sent = append(sent, subject)
			return tt.noRequests
		})
		if want := errors.Join(tt.noHealth, tt.noRequests); !cmp.Equal(sent, tt.want) || (err == nil) != (want == nil) {
			t.Errorf("%s: sent %q, %v, want %q, %v", tt.name, sent, err, tt.want, want)
		}
	}
	for i := range 2 * maxHalves {
		s.half.set(string(rune(i)), true)
	}
	if n := len(s.half.sent); n > maxHalves {
		t.Errorf("%d halves are remembered", n)
	}
}

func TestHalvesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := halves{sent: map[string]time.Time{}}
		h.set("a", true)
		h.set("b", true)
		h.set("b", false)
		if !h.has("a") || h.has("b") || h.has("c") {
			t.Errorf("has a %v, b %v, c %v", h.has("a"), h.has("b"), h.has("c"))
		}
		<-time.After(halfLife)
		if h.has("a") {
			t.Error("a nudge of a minute ago counts as half sent")
		}
	})
}
