package bus

import (
	"testing"
	"time"
)

// A message that is rejected again and again is in the log every 30 s with its count, and is forgotten after a minute.
func TestRepeatedDenials(t *testing.T) {
	d, v, begin := &denials{}, &Violation{Op: "publish", Subject: "a"}, time.Now()
	for _, tc := range []struct {
		after  time.Duration
		logged int
	}{{0, 1}, {time.Second, 0}, {29 * time.Second, 0}, {30 * time.Second, 4}, {31 * time.Second, 0}, {2 * time.Minute, 1}} {
		if got := d.report(v, "_INBOX.", begin.Add(tc.after)); got != tc.logged {
			t.Errorf("after %v the log has %d times, want %d", tc.after, got, tc.logged)
		}
	}
	for after, want := range map[time.Duration]int{179 * time.Second: 1, 3 * time.Minute: 0} {
		if _, got := d.refused(begin.Add(after)); len(got) != want {
			t.Errorf("after %v: %v, want %d", after, got, want)
		}
	}
}

func TestOfStream(t *testing.T) {
	for _, tc := range []struct {
		filter, subject string
		want            bool
	}{
		{"", "$JS.API.STREAM.INFO.KV_a", true},
		{"", "$JS.API.STREAM.INFO.KV_ab", false},
		{"", "$JS.API.CONSUMER.CREATE.KV_a.x.$KV.a.k", true},
		{"", "$JS.API.INFO", true},
		{"$KV.a.k", "$JS.API.DIRECT.GET.KV_a.$KV.a.k", true},
		{"$KV.a.k", "$JS.API.DIRECT.GET.KV_a.$KV.a.j", false},
		{"$KV.a.k", "$JS.API.DIRECT.GET.KV_a", true},
		{"", "KV_a", false},
	} {
		if got := ofStream("KV_a", tc.filter)(tc.subject); got != tc.want {
			t.Errorf("of the stream, read of %q: %s = %v, want %v", tc.filter, tc.subject, got, tc.want)
		}
	}
}

// A response to a request from before a reload is no lack of a permission.
func TestViolationOfAResponse(t *testing.T) {
	for subject, want := range map[string]string{
		"_R_.a.b": `publish to _R_.a.b: NATS rejects it for u: the server no longer knows the request of this response, for example after a reload of its accounts; the requester asks again`,
		"weir.a":  `publish to weir.a: NATS rejects it for u: give its role this permission, or use credentials of another role; run "weir doctor"`,
	} {
		if got := (&Violation{Op: "publish", Subject: subject, User: "u"}).Error(); got != want {
			t.Errorf("%s: %q, want %q", subject, got, want)
		}
	}
}
