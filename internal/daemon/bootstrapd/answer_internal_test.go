package bootstrapd

import (
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
)

// A request of a command that has an unknown key, a wrong type or no end is refused, and the response names the cause.
func TestRequestsOfCommandsAreDecodedStrictly(t *testing.T) {
	r := &reloader{} // a refused request reaches no process
	for text, want := range map[string]string{
		`{"app":"web","after_drain":true}`: `json: unknown field "after_drain"`,
		`{"app":7}`:                        "app: want a text, not a number",
		`{"app":"web"}{}`:                  "something follows it",
		``:                                 "found nothing",
		`{"app":"` + strings.Repeat("w", maxRequest) + `"}`: "are too long",
	} {
		if a := r.answerRestart([]byte(text)).(api.RestartAnswer); !strings.Contains(a.Error, want) {
			t.Errorf("restart by %.40s: %q, want %q", text, a.Error, want)
		}
		if a := r.answerLogs([]byte(text)).(api.ProcessLogsAnswer); !strings.Contains(a.Error, want) {
			t.Errorf("logs by %.40s: %q, want %q", text, a.Error, want)
		}
	}
}
