package placerbus

import (
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/placer"
)

func TestUnusableMessages(t *testing.T) {
	b := New(Config{Cluster: "c", Pool: "p"}, nil, slog.New(slog.DiscardHandler))
	const beat = `{"dea":"n1","droplets":[{"droplet":"a","version":"v","instance":"i","index":0,"state":"RUNNING","state_timestamp":1}]}`
	for _, m := range []struct {
		subject, data string
		usable        bool
	}{
		{message.HeartbeatSubject("c", message.Node{Pool: "p", Name: "n1"}), beat, true},
		{message.HeartbeatSubject("c", message.Node{Pool: "p", Name: "n2"}), beat, false},
		{message.HeartbeatSubject("c", message.Node{Pool: "p", Name: "n1"}), "not json", true}, // its node runs
		{message.HeartbeatSubject("c", message.Node{Pool: "p", Name: "n"}), `{"dea":"n","droplets":[{"droplet":"a","version":"v","instance":"i","index":-1,` +
			`"state":"RUNNING","state_timestamp":1}]}`, true}, // partial
		{message.HeartbeatSubject("c", message.Node{Pool: "p", Name: "n"}), `{"dea":"n","droplets":7}`, true},
		{message.FactsSubject("c", message.Node{Pool: "p", Name: "n1"}), `{"id":"n1","pool":"p","boot_id":"b","tasks":0,"resources":{"cpus":1,"mem":1,"disk":1},"allocated":{"cpus":0,"mem":0,"disk":0}}`, true},
		{message.FactsSubject("c", message.Node{Pool: "p", Name: "n1"}), `{"id":"n1","pool":"p"}`, false},
		{message.FactsSubject("c", message.Node{Pool: "p", Name: "n2"}), `{"id":"n1","pool":"p","draining":true}`, false},
		{message.FactsSubject("c", message.Node{Pool: "p", Name: "n"}), "not json", false},
		{message.ExitedSubject("c", message.Node{Pool: "p", Name: "n1"}), `{"droplet":"a","version":"v","instance":"i","index":0,"reason":"CRASHED"}`, true},
		{message.ExitedSubject("c", message.Node{Pool: "p", Name: "n"}), "{", false},
		{message.SubjectStart, `{"droplet":"a","version":"v","indices":[0]}`, true},
		{message.SubjectStop, `[]`, false},
		{cloudfoundry.RequestsSubject(message.Partition), `{"droplet":"a","op":"PAUSE"}`, false},
	} {
		if _, unusable := b.event(&nats.Msg{Subject: m.subject, Data: []byte(m.data)}).(placer.Unusable); unusable == m.usable {
			t.Errorf("%s %s: usable = %v, want %v", m.subject, m.data, !unusable, m.usable)
		}
	}
}
