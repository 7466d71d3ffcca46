package bootstrap

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

const tableHead = "Num       RefCount Protocol Flags    Type St Inode Path\n"

func TestUnixTable(t *testing.T) {
	for _, c := range []struct {
		name, lines string
		inode       uint64
		listens, ok bool
	}{
		{name: "nothing"},
		{"listens", "000000006e5ca25d: 00000002 00000000 00010000 0001 01 1529934 @a-b-web-socket\n", 1529934, true, true},
		{"is bound", "000000006e5ca25d: 00000002 00000000 00000000 0001 01 77 @a-b-web-socket\n", 77, false, true},
		{name: "waits to be accepted", lines: "000000003cb5b4ff: 00000003 00000000 00000000 0001 02     0 @a-b-web-socket\n"},
		{name: "was accepted", lines: "000000003cb5b4ff: 00000003 00000000 00000000 0001 03 1529938 @a-b-web-socket\n"},
		{"was accepted, and listens", "000000003cb5b4ff: 00000003 00000000 00000000 0001 03 8 @a-b-web-socket\n" +
			"000000006e5ca25d: 00000002 00000000 00010000 0001 01 9 @a-b-web-socket\n", 9, true, true},
		{name: "datagrams", lines: "000000006e5ca25d: 00000002 00000000 00000000 0002 01 5 @a-b-web-socket\n"},
		{name: "a file", lines: "000000006e5ca25d: 00000002 00000000 00010000 0001 01 5 /a-b-web-socket\n"},
		{name: "a longer name", lines: "000000006e5ca25d: 00000002 00000000 00010000 0001 01 5 @a-b-web-socket~\n"},
		{name: "a longer name before", lines: "000000006e5ca25d: 00000002 00000000 00010000 0001 01 5 @x @a-b-web-socket\n"},
		{name: "no columns", lines: " @a-b-web-socket\n"},
		{name: "no inode", lines: "000000006e5ca25d: 00000002 00000000 00010000 0001 01 x @a-b-web-socket\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inode, listens, ok := unixTable(tableHead + c.lines).holder("a-b-web-socket")
			if inode != c.inode || listens != c.listens || ok != c.ok {
				t.Errorf("holder = %d, %v, %v, want %d, %v, %v", inode, listens, ok, c.inode, c.listens, c.ok)
			}
		})
	}
}

func FuzzUnixTable(f *testing.F) {
	f.Add(tableHead+"000000006e5ca25d: 00000002 00000000 00010000 0001 01 9 @name\n", "name")
	f.Add("\n @\n", "")
	f.Add(" @ @ @", " @")
	f.Fuzz(func(t *testing.T, table, address string) {
		if inode, listens, ok := unixTable(table).holder(address); !ok && (inode != 0 || listens) {
			t.Fatalf("holder = %d, %v, %v", inode, listens, ok)
		}
	})
}

func TestListens(t *testing.T) {
	address := strings.ReplaceAll(t.Name(), "/", "-") + "-socket"
	group := groupOf(os.Getpid())
	if err := listens(group, address); !errors.Is(err, errSilent) {
		t.Errorf("before anybody listens: %v, want %v", err, errSilent)
	}
	l, err := net.Listen("unix", "@"+address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := listens(group, address); err != nil {
		t.Errorf("of the group that listens: %v, want nil", err)
	}
	if err := listens(1, address); !errors.Is(err, errStranger) {
		t.Errorf("of another group: %v, want %v", err, errStranger)
	}
	l.(*net.UnixListener).SetDeadline(time.Now().Add(10 * time.Millisecond))
	if conn, err := l.Accept(); err == nil {
		conn.Close()
		t.Error("somebody has connected, want nobody disturbed")
	}
}
