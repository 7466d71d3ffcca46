package sigproto

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// strangerAddress makes the test binary a process that connects to that address many times.
const strangerAddress = "SIGPROTO_TEST_STRANGER"

const strangerTries = 300

// visit connects repeatedly and keeps its connections. It prints how many of them the other end closed.
func visit(address string) error {
	var conns []net.Conn
	for range strangerTries {
		conn, err := net.Dial("unix", "@"+address)
		if err != nil {
			return err
		}
		conns = append(conns, conn)
	}
	ended := 0
	for _, conn := range conns {
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := conn.Read(make([]byte, 1)); err == io.EOF || errors.Is(err, syscall.ECONNRESET) {
			ended++
		}
	}
	fmt.Print(ended)
	return nil
}

// guardOn returns the address of a guard, and the connections that it accepts.
func guardOn(t *testing.T, change func(*guard)) (address string, accepted <-chan net.Conn) {
	t.Helper()
	address = testAddress(t)
	l, err := Listen(address)
	if err != nil {
		t.Fatal(err)
	}
	change(l.(*guard))
	conns := make(chan net.Conn)
	go func() {
		defer close(conns)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns <- conn
		}
	}()
	t.Cleanup(func() {
		l.Close()
		for conn := range conns {
			conn.Close()
		}
	})
	return address, conns
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", "@"+address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// expectClosed waits until the other end has closed a connection.
func expectClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d bytes, %v; want the connection closed", n, err)
	}
}

func TestGuardRefusesOtherUsers(t *testing.T) {
	me := uint32(os.Geteuid())
	address, accepted := guardOn(t, func(g *guard) { g.users = []uint32{me + 1} })
	for range strangerTries {
		expectClosed(t, dial(t, address))
	}
	select {
	case conn := <-accepted:
		conn.Close()
		t.Error("a connection of another user is accepted")
	default:
	}
}

// The peer is a process of another user, if the test may start one.
func TestGuardRefusesProcessOfAnotherUser(t *testing.T) {
	address, accepted := guardOn(t, func(*guard) {})
	foreignProcess := exec.Command("/proc/self/exe")
	foreignProcess.Env = []string{strangerAddress + "=" + address, "GORACE=atexit_sleep_ms=0"}
	foreignProcess.Stderr = os.Stderr
	foreignProcess.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 60999, Gid: 60999}}
	out, err := foreignProcess.Output()
	if errors.Is(err, syscall.EPERM) && os.Geteuid() != 0 {
		return // TestGuardRefusesOtherUsers covers the rule without another user
	}
	if err != nil || string(out) != fmt.Sprint(strangerTries) {
		t.Errorf("of %d connections of the other process %s were ended, %v", strangerTries, out, err)
	}
	own := dial(t, address)
	conn := <-accepted // the first accepted connection
	defer conn.Close()
	if _, err := own.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Errorf("the connection of this user: %v", err)
	}
}

func TestGuardAdmits(t *testing.T) {
	me := uint32(os.Geteuid())
	for _, test := range []struct {
		variable string
		want     []uint32
	}{
		{"", []uint32{0, me}}, {"4711", []uint32{0, me, 4711}}, {"-1", []uint32{0, me}}, {"4711x", []uint32{0, me}}, {"99999999999", []uint32{0, me}},
	} {
		t.Setenv(PeerVariable, test.variable)
		if got := Guard(nil).(*guard).users; fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("with %q: users %v, want %v", test.variable, got, test.want)
		}
	}
	g := Guard(nil)
	if Guard(g) != g {
		t.Error("a guard is guarded again, so that its connections count twice")
	}
}

// If too many connections are open, the next one is closed. After one of them ends, another one is accepted.
func TestGuardBoundsConnections(t *testing.T) {
	address, accepted := guardOn(t, func(*guard) {})
	var open []net.Conn
	for range maxConns {
		dial(t, address)
		open = append(open, <-accepted)
	}
	for range 3 {
		expectClosed(t, dial(t, address))
	}
	for range 2 { // closed twice, a connection counts once
		if err := open[0].Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Fatal(err)
		}
	}
	dial(t, address)
	open[0] = <-accepted
	expectClosed(t, dial(t, address))
	for _, conn := range open {
		conn.Close()
	}
}
