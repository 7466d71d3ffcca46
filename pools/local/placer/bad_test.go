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
			send(message.SubjectHeartbeat, "not json")
			send(message.SubjectHeartbeat, `{"dea":"n","droplets":[{"droplet":"a","version":"v","instance":"i","index":-1,`+
				`"state":"RUNNING","state_timestamp":1}]}`)
			send(message.NodeSubject("c", "n"), "not json")
		}
		if n := strings.Count(out.String(), "\n"); n != 1 {
			t.Errorf("%d lines within a minute, want 1:\n%s", n, out.String())
		}
		out.Reset()
		<-time.After(time.Minute)
		send(message.SubjectExited, "{")
		if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, " dropped=151 ") {
			t.Errorf("after a minute: %q, want one line with 151", got)
		}
	})
}
