package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
)

// The longest message that a server accepts is compared with those that nodes and daemons send.
func TestPayloadOfAServer(t *testing.T) {
	for payload, want := range map[int64]Result{0: OK, 32768: Failed, 65535: Failed, 65536: Warned, 1 << 20: OK, 8 << 20: OK} {
		v := visit{shown: "nats://n1", greeting: bus.Greeting{Version: "2.15.0", JetStream: true, MaxPayload: payload}}
		x := &busExam{visits: []visit{v}}
		f := x.ofServer(v, time.Now())
		if f.Result != want || want != OK && (!strings.Contains(f.Detail, "max_payload") || f.Fix != payloadFix) {
			t.Errorf("a server with max_payload %d: %+v, want %s", payload, f, want)
		}
	}
}
