package sigproto

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary is also the process at the other end. childRole selects its role, childAddress is where it listens or
// connects, and childForm what it sends.
const (
	childRole    = "SIGPROTO_TEST_ROLE"
	childAddress = "SIGPROTO_TEST_ADDRESS"
	childForm    = "SIGPROTO_TEST_FORM"
)

func TestMain(m *testing.M) {
	var err error
	if address := os.Getenv(strangerAddress); address != "" {
		if err = visit(address); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	switch role := os.Getenv(childRole); role {
	case "":
		goleak.VerifyTestMain(m)
		return
	case "signal":
		err = serveChild(answerAll)
	case "discard":
		err = serveChild(discardAll)
	case "autoscaler":
		err = runAutoscaler()
	default:
		err = fmt.Errorf("unknown role %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serveChild serves connections until standard input ends.
func serveChild(serve func(net.Conn) error) error {
	l, err := Listen(os.Getenv(childAddress))
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if err := serve(conn); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			_ = conn.Close()
		}
	}()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func answerAll(conn net.Conn) error {
	s := NewServerConn(conn, ServerConfig{})
	if _, err := s.ReadHello(); err != nil {
		return err
	}
	for {
		e, err := s.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.Answer(Response{Resources: Resources{CPUs: new(float64(len(e.Series)))}}); err != nil {
			return err
		}
	}
}

// discardAll reads messages with a length prefix, and answers each with one byte.
func discardAll(conn net.Conn) error {
	buffer := make([]byte, 256<<10)
	for {
		if _, err := io.ReadFull(conn, buffer[:4]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		for left := int(binary.BigEndian.Uint32(buffer)); left > 0; {
			n, err := conn.Read(buffer[:min(left, len(buffer))])
			if err != nil {
				return err
			}
			left -= n
		}
		if _, err := conn.Write([]byte{ackGood}); err != nil {
			return err
		}
	}
}

// testAddress returns an address that no other test or run uses.
func testAddress(tb testing.TB) string {
	name := strings.NewReplacer("/", "_", " ", "_").Replace(tb.Name())
	if len(name) > 60 {
		name = name[:60]
	}
	return Address("sigproto", fmt.Sprintf("%s_%d", name, os.Getpid()), "app")
}

func within(tb testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	tb.Cleanup(cancel)
	return ctx
}
