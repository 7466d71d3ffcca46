package supervise

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
)

const (
	keeperReadyLimit = 10 * time.Second
	keeperWriteLimit = 5 * time.Second
	keeperEndLimit   = keepLimit + time.Second
	firstKeeperPause = 10 * time.Millisecond
	maxKeeperPause   = time.Second
	maxKeeperOutput  = 4 << 10  // bytes of what a keeper prints instead of keepReady
	pipeCapacity     = 32 << 10 // bytes that a pipe buffers without a reader
)

// keeper is the launcher's handle of a keeper process.
type keeper struct {
	process *os.Process
	in      *os.File      // its standard input; closed only after it has ended, or to end it
	ended   chan struct{} // closed when the process has ended
}

// startKeeper starts a keeper, sends it all children, and returns when it is ready.
func (l *Launcher) startKeeper() (*keeper, error) {
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start keeper: %w", err)
	}
	defer childIn.Close()
	out, childOut, err := os.Pipe()
	if err != nil {
		in.Close()
		return nil, fmt.Errorf("start keeper: %w", err)
	}
	defer out.Close()
	process, err := l.forkKeeper(in, childIn, childOut)
	childOut.Close()
	if err != nil {
		in.Close()
		return nil, fmt.Errorf("start keeper: %w", err)
	}
	k := &keeper{process: process, in: in, ended: make(chan struct{})}
	l.helpers.Go(k.await)
	l.adopt(k)
	if err := awaitReady(out); err != nil {
		k.kill()
		return nil, fmt.Errorf("start keeper %q: %w", l.keeperArgv, err)
	}
	return k, nil
}

// keeperTitle is the name of a keeper in ps.
const keeperTitle = "weir: keeper"

// forkKeeper starts the process. The tag and the existing groups are in the pipe before the process starts. So the
// keeper reads them even if the launcher is killed at this moment.
func (l *Launcher) forkKeeper(in, childIn, childOut *os.File) (*os.Process, error) {
	if _, err := in.WriteString(l.knownGroups()); err != nil {
		return nil, err
	}
	return os.StartProcess(l.keeperArgv[0], append([]string{keeperTitle}, l.keeperArgv[1:]...), &os.ProcAttr{
		Dir: "/",
		// Without the tag: an outer keeper must not kill this one before it has done its work
		Env:   PlainEnvironment(os.Environ()),
		Files: []*os.File{childIn, childOut, childOut},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
}

// knownGroups returns the beginning of a register: the tag, the cgroup, and as many groups as an empty pipe can hold.
func (l *Launcher) knownGroups() string {
	text := fmt.Sprintf(tagLine, l.tag)
	if l.cgroup != "" {
		text += fmt.Sprintf(cgroupLine, l.cgroup)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.children {
		line := fmt.Sprintf(addLine, c.group.id, c.group.session, c.group.start)
		if len(text)+len(line) > pipeCapacity {
			break
		}
		text += line
	}
	return text
}

// awaitReady waits until a keeper prints keepReady.
func awaitReady(out *os.File) error {
	if err := out.SetReadDeadline(time.Now().Add(keeperReadyLimit)); err != nil {
		return err
	}
	printed := bufio.NewReader(io.LimitReader(out, maxKeeperOutput))
	line, err := printed.ReadString('\n')
	if err == nil && line == keepReady+"\n" {
		return nil
	}
	if err == nil || err == io.EOF {
		rest, _ := io.ReadAll(printed) // the data read so far is enough for the error
		return fmt.Errorf("it printed %q, want %q", line+string(rest), keepReady)
	}
	return err
}

// await closes ended when the process has ended.
func (k *keeper) await() {
	_, _ = k.process.Wait() // how it ended does not matter
	close(k.ended)
}

// kill ends a keeper without letting it kill children.
func (k *keeper) kill() {
	_ = k.process.Kill() // an error means that it has ended
	<-k.ended
	k.in.Close()
}

// release closes the keeper's input and waits until the keeper has done its work.
func (k *keeper) release() error {
	k.in.Close()
	limit := time.NewTimer(keeperEndLimit)
	defer limit.Stop()
	select {
	case <-k.ended:
		return nil
	case <-limit.C:
		_ = k.process.Kill()
		<-k.ended
		return fmt.Errorf("keeper did not end within %s", keeperEndLimit)
	}
}

// tendKeeper replaces the keeper each time it ends, until ctx ends.
func (l *Launcher) tendKeeper(ctx context.Context, k *keeper) {
	pause := firstKeeperPause
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.ended:
		}
		l.log.Error("keeper ended, starting another", "pid", k.process.Pid)
		next, err := l.startKeeper()
		if err == nil {
			k.in.Close()
			k, pause = next, firstKeeperPause
			continue
		}
		l.log.Error("orphan protection is off: keeper not running", "err", err, "retry_in", pause)
		if !retry.Pause(ctx, pause) {
			return
		}
		pause = min(2*pause, maxKeeperPause)
	}
}

// adopt makes k the current keeper and sends it all children.
func (l *Launcher) adopt(k *keeper) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keeper = k
	for _, c := range l.children {
		l.reportLocked(addLine, c.group.id, c.group.session, c.group.start)
	}
}

// reportLocked writes a line to the keeper. It kills a keeper that does not read, so that tendKeeper replaces it. The
// keeper's input must stay open until then.
func (l *Launcher) reportLocked(format string, args ...any) {
	err := l.keeper.in.SetWriteDeadline(time.Now().Add(keeperWriteLimit))
	if err == nil {
		_, err = fmt.Fprintf(l.keeper.in, format, args...)
	}
	if err != nil {
		_ = l.keeper.process.Kill() // an error means that it has ended, and tendKeeper replaces it
	}
}
