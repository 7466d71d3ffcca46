package bootstrap

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

// nameOf returns an address unique to the test.
func nameOf(t testing.TB) string { return strings.ReplaceAll(t.Name(), "/", "-") + "-socket" }

func listenAt(t testing.TB, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("unix", "@"+address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func look(t testing.TB, address string) (socket, bool) {
	t.Helper()
	table, err := readSockets()
	if err != nil {
		t.Fatal(err)
	}
	s, held := table[address]
	return s, held
}

func TestSockets(t *testing.T) {
	address := nameOf(t)
	if s, held := look(t, address); held {
		t.Fatalf("before any bind it is held by %+v", s)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: "@" + address}); err != nil {
		t.Fatal(err)
	}
	bound, held := look(t, address)
	if !held || bound.listens || !hasSocket(os.Getpid(), bound.inode) {
		t.Errorf("bound: %+v, %v, want a socket of this process that does not listen", bound, held)
	}
	if err := unix.Listen(fd, 8); err != nil {
		t.Fatal(err)
	}
	listening, _ := look(t, address)
	if listening.inode != bound.inode || !listening.listens {
		t.Errorf("listening: %+v, want it to listen, at inode %d", listening, bound.inode)
	}
	// A socket that waits to be accepted has the name too, but does not hold it.
	conn, err := net.Dial("unix", "@"+address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if now, _ := look(t, address); now != listening {
		t.Errorf("with a connection: %+v, want %+v", now, listening)
	}
	accepted, _, err := unix.Accept(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(accepted)
	if now, _ := look(t, address); now != listening {
		t.Errorf("with one that was accepted: %+v, want %+v", now, listening)
	}
	unix.Close(fd)
	if now, held := look(t, address); held {
		t.Errorf("after the listener has gone, what was accepted remains: %+v, want the address free", now)
	}
}

// Sockets of other kinds do not hold the address.
func TestSocketsOfOtherKinds(t *testing.T) {
	address := nameOf(t)
	datagrams, err := net.ListenPacket("unixgram", "@"+address)
	if err != nil {
		t.Fatal(err)
	}
	defer datagrams.Close()
	listenAt(t, address+"~")
	listenAt(t, "x @"+address)
	if s, held := look(t, address); held {
		t.Errorf("held by %+v, want it free", s)
	}
}

// A name with a line break is one name, whatever its content.
func TestForgedLine(t *testing.T) {
	victim := nameOf(t)
	forged := "x\n0000000000000000: 00000002 00000000 00010000 0001 01 4242 @" + victim
	listenAt(t, forged[:min(len(forged), maxAddress)])
	listenAt(t, "y\n0: 2 0 00010000 0001 01 7 @"+victim)
	if s, held := look(t, victim); held {
		t.Fatalf("held by %+v, want a forged line to say nothing", s)
	}
	if err := listens(os.Getpid(), victim); !errors.Is(err, errSilent) {
		t.Errorf("listens = %v, want %v", err, errSilent)
	}
	listenAt(t, victim)
	if err := listens(os.Getpid(), victim); err != nil {
		t.Errorf("listens = %v, want nil for who listens beside a forged line", err)
	}
}

func TestListens(t *testing.T) {
	address := nameOf(t)
	if err := listens(os.Getpid(), address); !errors.Is(err, errSilent) {
		t.Errorf("before any process listens: %v, want %v", err, errSilent)
	}
	l := listenAt(t, address)
	if err := listens(os.Getpid(), address); err != nil {
		t.Errorf("of who listens: %v, want nil", err)
	}
	if err := listens(1, address); !errors.Is(err, errForeignListener) {
		t.Errorf("of another: %v, want %v", err, errForeignListener)
	}
	l.(*net.UnixListener).SetDeadline(time.Now().Add(10 * time.Millisecond))
	if conn, err := l.Accept(); err == nil {
		conn.Close()
		t.Error("a process has connected, want none")
	}
}

// A member of the group other than the leader listens.
func TestListensOfAMember(t *testing.T) {
	address := nameOf(t)
	l := listenAt(t, address)
	file, err := l.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	leader := exec.Command("/bin/sh", "-c", "sleep 1000 & exec 3>&-; wait")
	leader.ExtraFiles = []*os.File{file}
	leader.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := leader.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { syscall.Kill(-leader.Process.Pid, syscall.SIGKILL); leader.Wait() }()
	file.Close()
	l.Close()
	late := time.After(await.Patience)
	for at, _ := look(t, address); hasSocket(leader.Process.Pid, at.inode); {
		select {
		case <-late:
			t.Fatal("the leader has not closed the socket")
		case <-time.After(time.Millisecond):
		}
	}
	if err := listens(leader.Process.Pid, address); err != nil {
		t.Errorf("listens = %v, want nil", err)
	}
}

// message is a netlink message.
func message(kind uint16, body ...byte) []byte {
	b := make([]byte, unix.SizeofNlMsghdr, unix.SizeofNlMsghdr+len(body))
	binary.NativeEndian.PutUint32(b, uint32(unix.SizeofNlMsghdr+len(body)))
	binary.NativeEndian.PutUint16(b[4:], kind)
	return append(b, body...)
}

// answer returns a socket with a name, as in the kernel's response.
func answer(kind, state byte, inode uint32, name string) []byte {
	body := make([]byte, diagAnswerLen)
	body[0], body[1], body[2] = unix.AF_UNIX, kind, state
	binary.NativeEndian.PutUint32(body[4:], inode)
	body = binary.NativeEndian.AppendUint16(body, uint16(unix.SizeofNlAttr+len(name)))
	body = binary.NativeEndian.AppendUint16(body, diagName)
	body = append(body, name...)
	for len(body)%4 != 0 {
		body = append(body, 0)
	}
	return message(unix.SOCK_DIAG_BY_FAMILY, body...)
}

func TestSocketsAdd(t *testing.T) {
	good := answer(unix.SOCK_STREAM, stateListens, 9, "\x00a-b-web-socket")
	for _, c := range []struct {
		name string
		part []byte
		want sockets
		done bool
		err  error
	}{
		{name: "nothing"},
		{name: "end", part: message(unix.NLMSG_DONE, 0, 0, 0, 0), done: true},
		{name: "one and the end", part: append(answer(unix.SOCK_STREAM, stateListens, 9, "\x00a-b-web-socket"), message(unix.NLMSG_DONE, 0, 0, 0, 0)...), want: sockets{"a-b-web-socket": {9, true}}, done: true},
		{name: "bound", part: answer(unix.SOCK_STREAM, stateClosed, 9, "\x00x"), want: sockets{"x": {9, false}}},
		{name: "connected", part: answer(unix.SOCK_STREAM, 1, 9, "\x00x")},
		{name: "datagrams", part: answer(unix.SOCK_DGRAM, stateClosed, 9, "\x00x")},
		{name: "a file", part: answer(unix.SOCK_STREAM, stateListens, 9, "/x")},
		{name: "no name", part: answer(unix.SOCK_STREAM, stateListens, 9, "")},
		{name: "refused", part: message(unix.NLMSG_ERROR, 0xfe, 0xff, 0xff, 0xff), err: syscall.ENOENT},
		{name: "half an error", part: message(unix.NLMSG_ERROR, 1), err: errTable},
		{name: "cut off", part: good[:len(good)-4], err: errTable},
		{name: "a short message", part: []byte{1, 2, 3}, err: errTable},
		{name: "a short socket", part: message(unix.SOCK_DIAG_BY_FAMILY, 1, 1), err: errTable},
		{name: "half an attribute", part: message(unix.SOCK_DIAG_BY_FAMILY, make([]byte, diagAnswerLen+2)...), err: errTable},
		{name: "an attribute of no length", part: message(unix.SOCK_DIAG_BY_FAMILY, make([]byte, diagAnswerLen+4)...), err: errTable},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := sockets{}
			done, err := got.addMessage(c.part)
			if done != c.done || !errors.Is(err, c.err) {
				t.Errorf("add = %v, %v, want %v, %v", done, err, c.done, c.err)
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(socket{})); len(c.want)+len(got) > 0 && diff != "" {
				t.Errorf("sockets (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzSocketsAdd(f *testing.F) {
	f.Add(answer(unix.SOCK_STREAM, stateListens, 9, "\x00name"))
	f.Add(message(unix.NLMSG_ERROR, 0, 0, 0, 0x80))
	f.Add([]byte{16, 0, 0, 0, 3, 0})
	f.Fuzz(func(t *testing.T, part []byte) {
		got := sockets{}
		if done, err := got.addMessage(part); done && err != nil {
			t.Fatalf("add = %v, %v", done, err)
		}
	})
}
