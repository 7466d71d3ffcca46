package natsbus

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// childVariable makes the test binary another process: a NATS server, or nodes that publish
// heartbeats.
const childVariable = "WEIR_NATSBUS_CHILD"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(childVariable) {
	case "server":
		err = serverChild()
	case "nodes":
		err = nodesChild(os.Args[len(os.Args)-1])
	default:
		goleak.VerifyTestMain(m)
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// startChild runs the test binary as a child until the test ends, and returns the first line
// of its output.
func startChild(b *testing.B, what string, args ...string) string {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), childVariable+"="+what)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe() // when it closes, the child ends
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		_ = cmd.Wait() // killed at the latest with the benchmark's context
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatalf("%s does not start: %v", what, err)
	}
	return strings.TrimSpace(line)
}

func serverChild() error {
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, MaxPending: 512 << 20})
	if err != nil {
		return err
	}
	ns.Start()
	if !ns.ReadyForConnections(deadline) {
		return fmt.Errorf("the server does not come up")
	}
	fmt.Println(ns.ClientURL())
	_, err = io.Copy(io.Discard, os.Stdin)
	ns.Shutdown()
	ns.WaitForShutdown()
	return err
}

// What nodesChild publishes.
const (
	benchNodes     = 200
	benchCopies    = 100 // of a node, in one message
	subjectPublish = "bench.speak"
	sameMessages   = "same"    // each message repeats the node's last one
	otherMessages  = "changed" // each copy differs from the node's last message
)

// nodesChild publishes on request: "KIND COUNT" on subjectPublish. It answers when the server
// has everything.
func nodesChild(url string) error {
	nc, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	rounds := map[string][2][][]byte{sameMessages: {heartbeats(1), heartbeats(1)}, otherMessages: {heartbeats(1), heartbeats(2)}}
	_, err = nc.Subscribe(subjectPublish, func(m *nats.Msg) {
		var kind string
		var n int
		if _, err := fmt.Sscan(string(m.Data), &kind, &n); err != nil {
			return
		}
		for i := range n {
			_ = nc.Publish(message.HeartbeatSubject(cluster, message.Node{Pool: "p", Name: fmt.Sprintf("node-%d", i%benchNodes)}), rounds[kind][i/benchNodes%2][i%benchNodes])
		}
		if nc.Flush() == nil {
			_ = m.Respond(nil)
		}
	})
	if err != nil || nc.Flush() != nil {
		return fmt.Errorf("subscribe: %v", err)
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// heartbeats returns one heartbeat of each node, with copies of 233 bytes.
func heartbeats(since int) [][]byte {
	out := make([][]byte, benchNodes)
	for n := range out {
		var b strings.Builder
		fmt.Fprintf(&b, `{"droplets":[`)
		for i := range benchCopies {
			if i > 0 {
				b.WriteByte(',')
			}
			id := n*benchCopies + i
			fmt.Fprintf(&b, `{"cc_partition":"default","droplet":"%s","version":"%08x-0000-4000-8000-%012x","instance":"%032x","index":0,"state":"RUNNING","state_timestamp":%d.12345}`,
				benchApp(id), id, id, id, 1400000000+since)
		}
		fmt.Fprintf(&b, `],"dea":"node-%d"}`, n)
		out[n] = []byte(b.String())
	}
	return out
}

func benchApp(id int) string { return fmt.Sprintf("%08x-1111-4111-8111-%012x", id, id) }

func benchVersion(id int) string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", id, id) }

// publishHeartbeats makes the nodes publish that many messages, and waits until received has counted all.
func publishHeartbeats(b *testing.B, nc *nats.Conn, kind string, count uint64, received func() uint64) time.Duration {
	b.Helper()
	began, before := time.Now(), received()
	if _, err := nc.Request(subjectPublish, fmt.Appendf(nil, "%s %d", kind, count), time.Minute); err != nil {
		b.Fatal(err)
	}
	until(b, "all heartbeats are received", func() bool { return received()-before >= count })
	return time.Since(began)
}

// until waits until ok is true.
func until(b *testing.B, what string, ok func() bool) {
	b.Helper()
	check := time.NewTicker(time.Millisecond)
	defer check.Stop()
	limit := time.NewTimer(deadline)
	defer limit.Stop()
	for !ok() {
		select {
		case <-check.C:
		case <-limit.C:
			b.Fatalf("in vain: %s", what)
		}
	}
}
