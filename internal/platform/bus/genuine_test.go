package bus

import (
	"testing"

	"github.com/nats-io/nats.go"
)

func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		pattern, subject string
		want             bool
	}{
		{"a.b", "a.b", true},
		{"a.b", "a.c", false},
		{"a.b", "a", false},
		{"a.b", "a.b.c", false},
		{"a.*", "a.b", true},
		{"a.*", "a", false},
		{"a.*", "a.b.c", false},
		{"a.*", "a.", false},
		{"a.*.c", "a.b.c", true},
		{"a.>", "a.b.c", true},
		{"a.>", "a", false},
		{"a.>", "a.", false},
		{">", "a", true},
		{"a", "", false},
	} {
		if got := matches(tt.pattern, tt.subject); got != tt.want {
			t.Errorf("matches(%q, %q) = %v, want %v", tt.pattern, tt.subject, got, tt.want)
		}
	}
}

// A message with a header of a stored message is not genuine, however the header is spelled. A message without a
// subscription is not either.
func TestGenuineByHeader(t *testing.T) {
	for header, genuine := range map[string]bool{
		"Nats-Stream": false, "nats-stream": false, "Nats-Subject": false, "Nats-Sequence": false, "Nats-Time-Stamp": false,
		"Nats-Pending-Messages": false, "Nats-TTL": false, "Status": false,
		"Nats-Msg-Id": true, "Nats-Request-Info": true, "Nats-Expected-Last-Subject-Sequence": true, "Weir-Harmonizer": true,
	} {
		m := &nats.Msg{Subject: "a", Sub: &nats.Subscription{Subject: "a"}, Header: nats.Header{header: {"x"}}}
		if err := checkGenuine(m); (err == nil) != genuine {
			t.Errorf("Genuine with header %s = %v, want genuine: %v", header, err, genuine)
		}
	}
	if checkGenuine(&nats.Msg{Subject: "a"}) == nil {
		t.Error("a message without a subscription is genuine")
	}
}
