// Package progress shows the progress of downloads and uploads on a terminal.
//
//	bars := progress.New(os.Stderr)
//	defer bars.Close()
//	bars.Show(ref, done, total)
//
// Each release has a line with its bytes and its rate. An output that is not a terminal gets nothing. New starts a
// goroutine, which ends with Close. Bars.Show may be called concurrently, but not after Close.
package progress

import (
	"io"
	"sync"
	"time"

	bar "github.com/jedib0t/go-pretty/v6/progress"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
)

// Bars shows the progress of downloads and uploads on a terminal, one line for each, with bytes and rate. It prints
// nothing if the output is not a terminal.
type Bars struct {
	writer bar.Writer // nil: not a terminal
	done   chan struct{}

	drawing  sync.WaitGroup
	mu       sync.Mutex
	trackers map[release.Ref]*bar.Tracker
}

// New returns the bars of an output. Close ends them.
func New(w io.Writer) *Bars {
	b := &Bars{trackers: map[release.Ref]*bar.Tracker{}, done: make(chan struct{})}
	f := terminal.Of(w)
	if f == nil {
		return b
	}
	b.writer = bar.NewWriter()
	b.writer.SetOutputWriter(f)
	b.writer.SetUpdateFrequency(100 * time.Millisecond)
	b.writer.Style().Visibility.Speed = true
	b.drawing.Go(func() {
		defer close(b.done)
		b.writer.Render()
	})
	return b
}

// OnTerminal reports whether the bars are shown.
func (b *Bars) OnTerminal() bool { return b.writer != nil }

// Show shows the progress of a transfer. It may be called concurrently.
func (b *Bars) Show(ref release.Ref, done, total int64) {
	if b.writer == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ok := b.trackers[ref]
	if !ok {
		t = &bar.Tracker{Message: ref.String(), Total: total, Units: bar.UnitsBytes}
		b.trackers[ref] = t
		b.writer.AppendTracker(t)
	}
	t.SetValue(done)
}

// Close stops the updates and leaves the lines on the terminal.
func (b *Bars) Close() {
	if b.writer == nil {
		return
	}
	again := time.NewTicker(10 * time.Millisecond) // the writer ignores a stop before its first update
	defer again.Stop()
	for {
		b.writer.Stop()
		select {
		case <-b.done:
			return
		case <-again.C:
		}
	}
}
