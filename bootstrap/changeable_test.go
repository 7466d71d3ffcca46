package bootstrap_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// behaviour is how a changeable signal handles its next write. A real-time signal, firstBehaviour plus the
// behaviour's number, sets it.
type behaviour int32

const (
	good       behaviour = iota
	writesJunk           // invalid data instead of an answer
	writesHalf           // half of the answer, then close
	writesLate           // answer: delayed
	closes               // close without an answer
	floods               // pipes: filled first
	hangs                // no answer, for ever
	leaves               // exit, with a grandchild that holds the pipes
	behaviours           // number of behaviours
)

const firstBehaviour = 40

// serveChangeable runs a signal that answers until a behaviour is set.
func serveChangeable(ctx context.Context, c signals.ServeConfig) error {
	l, err := sigproto.Listen(sigproto.Address(c.Namespace, c.Name, c.App))
	if err != nil {
		return err
	}
	told := make(chan os.Signal, 16)
	for m := range behaviours {
		signal.Notify(told, syscall.Signal(firstBehaviour+int(m)))
	}
	listener := &changeableListener{Listener: l, ctx: ctx}
	go func() {
		for s := range told {
			listener.behaviour.Store(int32(s.(syscall.Signal) - firstBehaviour))
		}
	}()
	return signals.ServeListener(ctx, constant(""), listener, c)
}

type changeableListener struct {
	net.Listener
	ctx       context.Context
	behaviour atomic.Int32
}

func (l *changeableListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &changeableConn{conn, l}, nil
}

type changeableConn struct {
	net.Conn
	of *changeableListener
}

func (c *changeableConn) Write(b []byte) (int, error) {
	switch behaviour(c.of.behaviour.Swap(int32(good))) {
	case writesJunk:
		return c.Conn.Write([]byte("junk junk junk junk"))
	case writesHalf:
		c.Conn.Write(b[:len(b)/2])
		return 0, c.Conn.Close()
	case writesLate:
		c.pause(10 * time.Millisecond)
	case closes:
		return 0, c.Conn.Close()
	case floods:
		for range 64 {
			os.Stderr.Write(bytes.Repeat([]byte("x"), 16<<10)) // without newlines
			os.Stdout.Write([]byte("line\n"))
		}
	case hangs:
		c.pause(time.Hour)
	case leaves:
		grandchild := exec.Command("/bin/sleep", "1000")
		grandchild.Stdout, grandchild.Stderr = os.Stdout, os.Stderr
		_ = grandchild.Start()
		os.Exit(1)
	}
	return c.Conn.Write(b)
}

func (c *changeableConn) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-c.of.ctx.Done():
	}
}
