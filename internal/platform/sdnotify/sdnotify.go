// Package sdnotify reports the state of a daemon to systemd: started, alive, reloading,
// stopping. Without systemd it does nothing.
//
//	n, err := sdnotify.Take()              // at the start, before any child
//	err = n.Run(ctx, h.Alive)              // READY=1, then WATCHDOG=1 while the loop responds
//	n.Reloading(); n.Rejected(reload()); n.Reloaded()
//
// The protocol is a datagram with lines NAME=VALUE, sent to the socket of NOTIFY_SOCKET
// (sd_notify(3)). Take removes the variables from the environment, so children do not
// inherit them. Libraries read the variable at each message, so they cannot do that.
//
// A nil Notifier sends nothing. All methods may be called concurrently.
package sdnotify

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
)

const (
	variableSocket   = "NOTIFY_SOCKET"
	variableWatchdog = "WATCHDOG_USEC" // microseconds between two signs of life, at most
	variablePID      = "WATCHDOG_PID"  // process that must send them; empty: any

	maxStatus   = 300 // bytes of a status line
	sendTimeout = time.Second
	checkPause  = 50 * time.Millisecond // between two checks until the daemon is ready
	// checkTimeout bounds one check if there is no watchdog.
	checkTimeout = 10 * time.Second
)

// Notifier sends messages to the service manager.
type Notifier struct {
	socket   string        // empty: no service manager waits for messages
	watchdog time.Duration // 0: no watchdog

	mu       sync.Mutex // also orders the messages with a status
	status   string     // last one that was sent
	rejected string     // why the configuration was rejected, for as long as it is; empty: it was not
}

// Take returns the notifier of this process, and removes the variables of systemd from its
// environment. A second call returns a notifier that sends nothing.
func Take() (*Notifier, error) {
	socket, period, pid := os.Getenv(variableSocket), os.Getenv(variableWatchdog), os.Getenv(variablePID)
	for _, name := range []string{variableSocket, variableWatchdog, variablePID} {
		if err := os.Unsetenv(name); err != nil {
			return nil, fmt.Errorf("remove %s from the environment: %w", name, err)
		}
	}
	n := &Notifier{socket: socket}
	if socket == "" {
		return n, nil
	}
	if socket[0] != '/' && socket[0] != '@' || len(socket) < 2 {
		return nil, fmt.Errorf("%s is %.100q: want the absolute path of a socket, as systemd sets it; unset it to run without systemd", variableSocket, socket)
	}
	if period == "" || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return n, nil
	}
	us, err := strconv.ParseUint(period, 10, 63)
	const most = uint64(24 * time.Hour / time.Microsecond)
	if err != nil || us == 0 || us > most {
		return nil, fmt.Errorf("%s is %.100q: want a number of microseconds from 1 to %d; check WatchdogSec of the unit", variableWatchdog, period, most)
	}
	n.watchdog = time.Duration(us) * time.Microsecond
	return n, nil
}

// Run sends READY=1 when alive first returns nil. Then it calls alive twice in each watchdog
// period, and sends WATCHDOG=1 only if it returns nil. A status line has the error of alive,
// until alive returns nil again. Then it has the reason of Rejected.
// When ctx ends, Run sends STOPPING=1 and returns nil. It returns an error if the service
// manager does not receive READY=1.
//
// The context of alive ends after half a period. If alive does not return, Run sends nothing,
// so systemd ends the process.
func (n *Notifier) Run(ctx context.Context, alive func(context.Context) error) error {
	if n == nil || n.socket == "" {
		<-ctx.Done()
		return nil
	}
	pause := time.NewTimer(0)
	defer pause.Stop()
	ready := false
	for {
		select {
		case <-ctx.Done():
			n.trySend("STOPPING=1")
			return nil
		case <-pause.C:
		}
		err := n.check(ctx, alive)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			n.report(err)
		case !ready:
			n.mu.Lock()
			err := n.sendReady(watchdogLine(n.watchdog))
			n.mu.Unlock()
			if err != nil {
				return err
			}
			ready = true
		default:
			n.report(nil)
			if n.watchdog > 0 {
				n.trySend("WATCHDOG=1")
			}
		}
		pause.Reset(n.pause(ready))
	}
}

// pause returns the time until the next check.
func (n *Notifier) pause(ready bool) time.Duration {
	switch {
	case !ready:
		return checkPause
	case n.watchdog > 0:
		return n.watchdog / 2
	}
	return checkTimeout
}

// watchdogLine is a first sign of life.
func watchdogLine(watchdog time.Duration) string {
	if watchdog == 0 {
		return ""
	}
	return "WATCHDOG=1\n"
}

func (n *Notifier) check(ctx context.Context, alive func(context.Context) error) error {
	limit := checkTimeout
	if n.watchdog > 0 {
		limit = n.watchdog / 2
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return alive(ctx)
}

// Reloading reports that the daemon reads its configuration again, with the time that
// Type=notify-reload requires.
func (n *Notifier) Reloading() {
	if n == nil {
		return
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return // the kernel has this clock since Linux 2.6
	}
	n.trySend("RELOADING=1\nMONOTONIC_USEC=" + strconv.FormatInt(now.Nano()/1000, 10))
}

// Rejected reports why the configuration is rejected; empty: it is accepted. "systemctl status"
// shows the reason until the next call, except while the daemon does not respond.
func (n *Notifier) Rejected(why string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	n.rejected = prose.Line(why, maxStatus)
	n.mu.Unlock()
	n.report(nil)
}

// Reloaded ends what Reloading began. Its message also has the status line.
func (n *Notifier) Reloaded() {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	_ = n.sendReady("") // see trySend
}

// sendReady sends READY=1, further lines, and the status of a daemon that responds, in one message.
// The caller holds mu.
func (n *Notifier) sendReady(lines string) error {
	n.status = n.rejected
	return n.send("READY=1\n" + lines + "STATUS=" + n.status)
}

// report sends the status line if it changes. err is the error of alive.
func (n *Notifier) report(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	status := n.rejected
	if err != nil {
		status = prose.Line("does not respond: "+err.Error(), maxStatus)
	}
	if status != n.status {
		n.status = status
		n.trySend("STATUS=" + status)
	}
}

// trySend sends a message. Without it the service manager ends the process, or shows an old
// status: the daemon can do nothing about it.
func (n *Notifier) trySend(message string) { _ = n.send(message) }

func (n *Notifier) send(message string) error {
	if n.socket == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err == nil {
		err = errors.Join(c.SetWriteDeadline(time.Now().Add(sendTimeout)), write(c, message), c.Close())
	}
	if err != nil {
		return fmt.Errorf("notify the service manager at %s: %w; start the daemon by its systemd unit, or unset %s", n.socket, err, variableSocket)
	}
	return nil
}

func write(c *net.UnixConn, message string) error {
	_, err := c.Write([]byte(message))
	return err
}
