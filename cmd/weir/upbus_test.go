package main

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// joinAs returns a connection to the bus of a data folder, with a role in cluster local. It is closed with the test.
func joinAs(tb testing.TB, data string, u roles.User) *bus.Bus {
	tb.Helper()
	u.Cluster = "local"
	b, err := bus.Find(tb.Context(), bus.Config{Data: data, Name: tb.Name(), User: u, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(b.Close)
	return b
}

// On the bus of "weir up" each process has the permissions of its role: an agent speaks for its own node only, and no
// part of "weir up" needs more than it has.
func TestUpHasRoles(t *testing.T) {
	t.Parallel()
	u := startUp(t, t.TempDir())
	u.weir(t, "app", "set", "web", "--instances", "2", "--command", "echo begun; sleep 1000")
	u.waitRunning(t, "web", 2)
	machines := strings.Fields(u.weir(t, "node", "list", "--output", "name"))
	if len(machines) < 2 {
		t.Fatalf("machines %v, want two", machines)
	}
	own, other := machines[0], machines[1]
	denied := func(b *bus.Bus, subject string) bool {
		t.Helper()
		if err := b.Conn().Publish(subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		if err := b.Conn().FlushTimeout(time.Minute); err != nil {
			t.Fatal(err)
		}
		last := b.Conn().LastError()
		return errors.Is(last, nats.ErrPermissionViolation) && strings.Contains(last.Error(), `"`+subject+`"`)
	}
	agent := roles.User{Role: roles.Agent, Pool: "default", Node: own}
	for subject, want := range map[string]bool{
		message.HeartbeatSubject("local", message.Node{Pool: "default", Name: own}):   false,
		message.HeartbeatSubject("local", message.Node{Pool: "default", Name: other}): true,
		message.FactsSubject("local", message.Node{Pool: "default", Name: other}):     true,
		message.ExitedSubject("local", message.Node{Pool: "default", Name: other}):    true,
		message.SubjectHeartbeat:                                           true,
		names.Subject("local", "agent", "default", other, "fence"):         true,
		"$KV." + names.AppsBucket("local") + ".web":                        true,
		"$JS.API.STREAM.DELETE.KV_" + names.PoolBucket("local", "default"): true,
		names.Subject("local", "local", "default", "terminate"):            true,
		"$KV." + names.PoolBucket("local", "default") + ".lease":           true,
	} {
		if got := denied(joinAs(t, u.data, agent), subject); got != want {
			t.Errorf("the agent of %s publishes %s: refused %v, want %v", own, subject, got, want)
		}
	}
	if !denied(joinAs(t, u.data, roles.User{Role: roles.Operator}), names.Subject("local", "agent", "default", own, "fence")) {
		t.Error("an operator may fence a machine")
	}
	for _, command := range [][]string{
		{"status"}, {"app", "list"}, {"app", "logs", "web"}, {"explain", "--since", "1m"}, {"plan"}, {"node", "list"}, {"pause", "--for", "1m"}, {"resume"},
		{"metrics", "put", "--app", "web", "requests=1"}, {"app", "delete", "web"},
	} {
		if r := u.run(command...); r.code != 0 || strings.Contains(r.stderr, "ermission") {
			t.Errorf("weir %s exits with %d:\n%s%s", strings.Join(command, " "), r.code, r.stdout, r.stderr)
		}
	}
	for _, line := range violations(t, filepath.Join(u.data, "weir.log")) {
		if !strings.Contains(line, t.Name()) { // of the connections above
			t.Errorf("a part of weir up has no permission: %s", line)
		}
	}
}

// violations returns the lines of a log about permissions.
func violations(t *testing.T, log string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rejected(line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// rejected reports whether a line of a log is about a message that NATS or its receiver rejected.
func rejected(line string) bool {
	for _, words := range []string{"bus permission denied", "Violation", "NATS rejects", "message refused"} {
		if strings.Contains(line, words) {
			return true
		}
	}
	return false
}
