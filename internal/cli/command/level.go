package command

import (
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// liveLevel is a level that SIGUSR1 changes between the usual one and debug. It may be used concurrently.
type liveLevel struct {
	usual   slog.Level
	signals chan os.Signal
	verbose atomic.Bool
}

// pendingSignals bounds the signals that arrive between two log lines. More of them are lost.
const pendingSignals = 8

func newLiveLevel(usual slog.Level) *liveLevel {
	l := &liveLevel{usual: usual, signals: make(chan os.Signal, pendingSignals)}
	signal.Notify(l.signals, syscall.SIGUSR1)
	return l
}

// Level implements slog.Leveler. It processes the signals that arrived, so that no goroutine has to.
func (l *liveLevel) Level() slog.Level {
	for {
		select {
		case <-l.signals:
			for old := l.verbose.Load(); !l.verbose.CompareAndSwap(old, !old); old = l.verbose.Load() {
				continue
			}
		default:
			if l.verbose.Load() {
				return min(l.usual, slog.LevelDebug)
			}
			return l.usual
		}
	}
}
