package bootstrap_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Behaviours of a signal. Without one it answers "3 cpus".
const (
	four           = "four"      // answers "4 cpus"
	crashing       = "crashing"  // ends at once
	brittle        = "brittle"   // ends when the file of brittleVariable exists
	silent         = "silent"    // listens and sends nothing
	invalidAnswers = "babbling"  // answers: invalid data
	half           = "half"      // answers: the first half
	closing        = "closing"   // closes what it accepted
	flooding       = "flooding"  // pipes: full all the time
	forking        = "forking"   // has a grandchild that holds its pipes
	slow           = "slow"      // answers late
	acceptOne      = "acceptOne" // answers the first connection and accepts no others
)

const brittleVariable = "WEIR_TEST_BRITTLE"

func runBehaviour(ctx context.Context, how string, c signals.ServeConfig) error {
	switch how {
	case crashing:
		return errors.New("crash")
	case silent, invalidAnswers, half, closing:
		return misbehave(ctx, how, sigproto.Address(c.Namespace, c.Name, c.App))
	case acceptOne:
		return serveOne(ctx, c)
	case brittle:
		if _, err := os.Stat(os.Getenv(brittleVariable)); err == nil {
			return errors.New("broken")
		}
	case flooding:
		var flood sync.WaitGroup
		defer flood.Wait()
		flood.Go(func() { fill(ctx, os.Stderr) })
	case forking:
		grandchild := exec.Command("/bin/sleep", "1000")
		grandchild.Stdout, grandchild.Stderr = os.Stdout, os.Stderr
		if err := grandchild.Start(); err != nil {
			return err
		}
	}
	return signals.Serve(ctx, constant(how), c)
}

// constant is a signal with a fixed answer.
type constant string

func (c constant) Value(ctx context.Context, _ signals.Input) (resource.Request, error) {
	if c == slow {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	cpus := 3.0
	if c == four {
		cpus = 4
	}
	return resource.Request{}.With(resource.CPUs, cpus), nil
}

// fill writes as fast as the output is read, with few newlines.
func fill(ctx context.Context, w io.Writer) {
	block := []byte(strings.Repeat("x", 16<<10) + "\n")
	for ctx.Err() == nil {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

// misbehave violates the wire protocol.
func misbehave(ctx context.Context, how, address string) error {
	l, err := sigproto.Listen(address)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { l.Close() })
	for {
		conn, err := l.Accept()
		if err != nil {
			return nil
		}
		go func() {
			defer conn.Close()
			switch how {
			case silent:
				io.Copy(io.Discard, conn)
			case invalidAnswers:
				conn.Read(make([]byte, 4096))
				conn.Write([]byte("garbage garbage garbage"))
				io.Copy(io.Discard, conn)
			case half:
				conn.Read(make([]byte, 4096))
				conn.Write([]byte{1, 1})
				conn.Write([]byte(`{"Resources":{"cpus"`))
			}
		}()
	}
}

// serveOne is a signal that accepts one connection, as Clusterman's do.
func serveOne(ctx context.Context, c signals.ServeConfig) error {
	l, err := sigproto.Listen(sigproto.Address(c.Namespace, c.Name, c.App))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { l.Close() })
	return signals.ServeListener(ctx, constant(""), &once{Listener: l, ctx: ctx}, c)
}

// once is a listener that accepts one connection.
type once struct {
	net.Listener
	ctx        context.Context
	isSourceOf bool
}

func (o *once) Accept() (net.Conn, error) {
	if o.isSourceOf {
		<-o.ctx.Done()
		return nil, net.ErrClosed
	}
	o.isSourceOf = true
	return o.Listener.Accept()
}
