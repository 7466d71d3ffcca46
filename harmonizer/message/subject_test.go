package message

import "testing"

// The subject of an agent has its node. Any other subject is returned as it is.
func TestOfNode(t *testing.T) {
	for subject, want := range map[string][2]string{
		HeartbeatSubject("c", "i-1"): {"i-1", SubjectHeartbeat},
		ExitedSubject("c", "i-1"):    {"i-1", SubjectExited},
		NodeSubject("c", "i-1"):      {"", NodeSubject("c", "i-1")},
		AnnounceSubject("c"):         {"", "weir.c.announce"},
		SubjectHeartbeat:             {"", SubjectHeartbeat},
		SubjectExited:                {"", SubjectExited},
		"weir.c.heartbeat":           {"", "weir.c.heartbeat"},
		"weir.c.heartbeat.a.b":       {"", "weir.c.heartbeat.a.b"},
		"other.c.heartbeat.a":        {"", "other.c.heartbeat.a"},
		"":                           {"", ""},
	} {
		if node, legacy := OfNode(subject); node != want[0] || legacy != want[1] {
			t.Errorf("OfNode(%q) = %q, %q, want %q", subject, node, legacy, want)
		}
	}
}
