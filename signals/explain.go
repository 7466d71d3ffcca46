package signals

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/weirkeeper/weirkeeper/sigproto"
)

var (
	// ErrNoOpinion: the signal has nothing to ask for or against. Wrapped with %w,
	// the text around it is the answer's explanation.
	ErrNoOpinion = errors.New("no opinion")
	// ErrStale: the signal's data is too old to tell from. Wrapped with %w, the
	// text around it is the answer's explanation.
	ErrStale = errors.New("stale")
)

// verdictOf returns the verdict that Value's error stands for, VerdictValue if
// none, and what the error says beside it.
func verdictOf(err error) (verdict sigproto.Verdict, why string) {
	var sentinel error
	switch {
	case errors.Is(err, ErrNoOpinion):
		verdict, sentinel = sigproto.VerdictNoOpinion, ErrNoOpinion
	case errors.Is(err, ErrStale):
		verdict, sentinel = sigproto.VerdictStale, ErrStale
	default:
		return sigproto.VerdictValue, ""
	}
	if err.Error() == sentinel.Error() {
		return verdict, ""
	}
	return verdict, strings.TrimSuffix(err.Error(), ": "+sentinel.Error())
}

// noteKey is where a context holds the note of an evaluation.
type noteKey struct{}

type note struct {
	mu   sync.Mutex
	text string
}

// Explain says to people how the answer came about; ctx is the one that Value
// got. The last call counts. It is shown as one line: what does not print becomes
// a space, and what is longer than 1024 bytes is cut. It may be called from any
// goroutine, and does nothing outside of an evaluation.
func Explain(ctx context.Context, format string, args ...any) {
	n, ok := ctx.Value(noteKey{}).(*note)
	if !ok {
		return
	}
	text := fmt.Sprintf(format, args...)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.text = text
}

// WithExplanation returns a context for one call of Value, and a function that
// returns what was said there with Explain. [Serve] makes one for each
// evaluation, and a test may make its own.
func WithExplanation(ctx context.Context) (_ context.Context, explanation func() string) {
	n := new(note)
	return context.WithValue(ctx, noteKey{}, n), func() string {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.text
	}
}
