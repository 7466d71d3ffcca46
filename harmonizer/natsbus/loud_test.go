package natsbus

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

// A loud node sends 80,000 small heartbeats and 100 of 7 MB while the harmonizer is busy. It loses its own messages, and is
// named. The heartbeats of the other nodes all arrive, the state stays complete, and memory stays within the bound.
func TestLoudNodeLosesItsOwnMessagesOnly(t *testing.T) {
	// The server gives a reader on a busy machine all the room and time that it needs: it would close its connection.
	url := bustest.Serve(t, server.Options{MaxPayload: 8 << 20, MaxPending: 1 << 30, WriteDeadline: deadline}).ClientURL()
	e := newEar()
	b := listenAs(t, connect(t, url), Config{}, e)
	loud, nc := message.Node{Pool: "p", Name: "loud"}, connect(t, url)
	for i := range cap(e.events) { // the handler is full: everything else waits
		publish(t, nc, message.HeartbeatSubject(cluster, message.Node{Pool: "q", Name: fmt.Sprint("before", i)}), "x")
	}
	small, large := strings.Repeat("s", 200), strings.Repeat("l", 7<<20)
	for i := range 80_000 {
		publish(t, nc, message.HeartbeatSubject(cluster, loud), small)
		if i%800 == 0 {
			publish(t, nc, message.HeartbeatSubject(cluster, loud), large)
		}
	}
	const quiet = 300
	for i := range quiet {
		publish(t, nc, message.HeartbeatSubject(cluster, message.Node{Pool: "p", Name: fmt.Sprint("quiet", i)}), "x")
	}
	large = ""
	if err := nc.FlushTimeout(deadline); err != nil {
		t.Fatal(err)
	}
	heard, lost, fromLoud := map[message.Node]bool{}, uint64(0), 0
	for limit := time.After(deadline); len(heard) < quiet || lost == 0; {
		select {
		case ev := <-e.events:
			switch ev := ev.(type) {
			case apps.Heartbeat:
				if ev.Node == loud {
					fromLoud++
				} else if ev.Node.Pool == "p" {
					heard[ev.Node] = true
				}
			case apps.SenderLimited:
				if ev.Node != loud {
					t.Errorf("%v lost messages", ev.Node)
				}
				lost += ev.Lost
			default:
				t.Errorf("event %#v", ev)
			}
		case <-limit:
			t.Fatalf("%d quiet nodes were heard, want %d; %d messages of the loud one, %d lost", len(heard), quiet, fromLoud, lost)
		}
	}
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	if memory.HeapInuse > wire.MaxWaiting+(64<<20) {
		t.Errorf("%d MiB of memory are in use, want at most %d of messages and 64 of all else", memory.HeapInuse>>20, wire.MaxWaiting>>20)
	}
	t.Logf("%d messages of the loud node were received and %d lost; %d MiB in use, %d MiB at most", fromLoud, lost, memory.HeapInuse>>20, memory.HeapSys>>20)
	if n := b.Counters()["dropped"]; n != 0 {
		t.Errorf("%d messages of no sender were dropped", n)
	}
}
