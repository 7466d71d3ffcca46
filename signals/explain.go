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
	// ErrNoOpinion: the signal requests nothing. If it is wrapped with %w, the text around it is the answer's
	// explanation.
	ErrNoOpinion = errors.New("no opinion")
	// ErrStale: the signal's data is too old. If it is wrapped with %w, the text around it is the answer's explanation.
	ErrStale = errors.New("stale")
)

// verdictOf returns the verdict for an error of Value, or VerdictValue, and the error's additional text.
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

// noteKey is the context key of an evaluation's note.
type noteKey struct{}

type note struct {
	mu   sync.Mutex
	text string
}

// Explain sets the explanation of the answer, for operators. ctx is the context of Value. The last call counts. The
// text is shown as one line: non-printable characters become spaces, and it is cut at 1024 bytes. It may be called from
// any goroutine. Outside of an evaluation it does nothing.
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

// WithExplanation returns a context for one call of Value, and a function that returns the text set with Explain.
// [Serve] calls it for each evaluation, and a test may call it too.
func WithExplanation(ctx context.Context) (_ context.Context, explanation func() string) {
	n := new(note)
	return context.WithValue(ctx, noteKey{}, n), func() string {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.text
	}
}
