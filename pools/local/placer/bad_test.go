package placer

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

func TestBadMessagesAreCountedAndLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p, err := New(Config{Cluster: "c", Pool: "p"}, nil, nil, slog.New(slog.NewTextHandler(&out, nil)))
		if err != nil {
			t.Fatal(err)
		}
		send := func(subject, data string) {
			if p.handle(time.Now(), &nats.Msg{Subject: subject, Data: []byte(data)}) {
				t.Errorf("%s: %q was taken", subject, data)
			}
		}
		for range 50 {
			send(message.HeartbeatSubject("c", "n"), "not json")
			send(message.HeartbeatSubject("c", "n"), `{"dea":"n","droplets":[{"droplet":"a","version":"v","instance":"i","index":-1,`+
				`"state":"RUNNING","state_timestamp":1}]}`)
			send(message.NodeSubject("c", "n"), "not json")
		}
		if n := strings.Count(out.String(), "\n"); n != 1 {
			t.Errorf("%d lines within a minute, want 1:\n%s", n, out.String())
		}
		out.Reset()
		<-time.After(time.Minute)
		send(message.ExitedSubject("c", "n"), "{")
		if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, " dropped=151 ") {
			t.Errorf("after a minute: %q, want one line with 151", got)
		}
	})
}

// An agent reports the copies and the ends of its own node only.
func TestMessageOfAnotherNodeIsRefused(t *testing.T) {
	p, err := New(Config{Cluster: "c", Pool: "p"}, nil, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	send := func(subject, data string) bool {
		return p.handle(time.Now(), &nats.Msg{Subject: subject, Data: []byte(data)})
	}
	for _, node := range []string{"n1", "n2"} {
		if !send(message.NodeSubject("c", node), `{"id":"`+node+`","pool":"p"}`) {
			t.Fatalf("facts of node %s are refused", node)
		}
	}
	const beat = `{"dea":"n1","droplets":[{"droplet":"a","version":"v","instance":"i","index":0,"state":"RUNNING","state_timestamp":1}]}`
	const exit = `{"droplet":"a","version":"v","instance":"i","index":0,"reason":"CRASHED"}`
	for _, m := range []struct {
		subject, data string
		taken         bool
		copies        int
	}{
		{message.HeartbeatSubject("c", "n2"), beat, false, 0},
		{message.HeartbeatSubject("c", "n1"), beat, true, 1},
		{message.ExitedSubject("c", "n2"), exit, false, 1},
		{message.HeartbeatSubject("c", "n2"), `{"dea":"n1","droplets":[]}`, false, 1},
		{message.NodeSubject("c", "n2"), `{"id":"n1","pool":"p","draining":true}`, false, 1},
		{message.ExitedSubject("c", "n1"), exit, true, 0},
	} {
		if taken := send(m.subject, m.data); taken != m.taken || len(p.core.copies) != m.copies {
			t.Errorf("%s %s: taken %v, then %d copies; want %v, %d", m.subject, m.data, taken, len(p.core.copies), m.taken, m.copies)
		}
	}
	if p.dropped != 4 {
		t.Errorf("%d messages are counted, want 4", p.dropped)
	}
}
