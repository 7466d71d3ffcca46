package signaltest

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A program rests when no thread of it ran, waited for a processor or for a disk, in this number of looks with this pause. So the
// time that it needs on a busy machine does not count.
const (
	restLooks = 30
	restPause = 10 * time.Millisecond
)

// rest returns when the program rests or has ended, when until is closed, or after the limit of an answer.
func (s *session) rest(ctx context.Context, until <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, s.target.Limits.Answer)
	defer cancel()
	look := time.NewTicker(restPause)
	defer look.Stop()
	group := processes(s.cmd.Process.Pid)
	for resting := 0; resting < restLooks; resting++ {
		select {
		case <-until:
			return
		case <-s.done:
			return
		case <-ctx.Done():
			return
		case <-look.C:
		}
		if slices.ContainsFunc(group, works) {
			resting = -1
		}
	}
}

// processes returns the folders below /proc of the processes of a group.
func processes(group int) (all []string) {
	found, _ := filepath.Glob("/proc/[1-9]*") // never a bad pattern
	for _, folder := range found {
		if fields := statOf(folder); len(fields) > 2 && fields[2] == strconv.Itoa(group) {
			all = append(all, folder)
		}
	}
	return all
}

// works reports whether a thread of a process runs, or waits for a processor or a disk.
func works(folder string) bool {
	threads, _ := filepath.Glob(folder + "/task/*") // none: it has ended
	return slices.ContainsFunc(threads, func(thread string) bool {
		fields := statOf(thread)
		return len(fields) > 0 && (fields[0] == "R" || fields[0] == "D")
	})
}

// statOf returns the fields of a process or thread from its state on; none if it has ended.
func statOf(folder string) []string {
	stat, _ := os.ReadFile(folder + "/stat")
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
}
