package wire

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

func IsPrintable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// cutMark ends a text that was cut.
const cutMark = " ..."

// Clip turns a text into a valid Why of a condition. It cuts a long text at a space.
func Clip(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if len(s) > pools.MaxConditionWhy {
		s = strings.ToValidUTF8(s[:pools.MaxConditionWhy-len(cutMark)], "")
		if end := strings.LastIndexByte(s, ' '); end > 0 {
			s = s[:end]
		}
		s += cutMark
	}
	return s
}

// invalidConditions is the type of the condition that stands for conditions beyond their bounds.
const invalidConditions = "InvalidConditions"

// unreadableFacts is the type of the condition of a node whose facts are not readable.
const unreadableFacts = "UnreadableFacts"

// Unreadable returns the facts of a node whose latest facts are not readable: the last known ones, with a condition that
// has the cause. The node itself runs.
func Unreadable(last api.NodeFacts, cause error) api.NodeFacts {
	all := slices.DeleteFunc(slices.Clone(last.Conditions), func(c api.NodeCondition) bool { return c.Type == unreadableFacts })
	last.Outdated = true
	last.Conditions = append(all[:min(len(all), pools.MaxConditions-1)], api.NodeCondition{Type: unreadableFacts, Unknown: true, Why: Clip(cause.Error())})
	return last
}

// Conditions returns the usable conditions of a list, which may have at most limit, and the mistakes of the others. A type
// that occurs twice with different results is Unknown. The texts are printable and within their bounds.
func Conditions(list []api.NodeCondition, limit int) (out []api.NodeCondition, err error) {
	var errs []error
	for i, c := range list {
		c.Why = Clip(c.Why)
		same := slices.IndexFunc(out, func(o api.NodeCondition) bool { return o.Type == c.Type })
		switch {
		case c.Type == "" || len(c.Type) > pools.MaxConditionType || !IsPrintable(c.Type):
			errs = append(errs, fmt.Errorf("condition %d has type %.80q: want 1 to %d printable bytes", i, c.Type, pools.MaxConditionType))
		case same >= 0 && (out[same].Failed != c.Failed || out[same].Unknown != c.Unknown):
			out[same].Unknown, out[same].Why = true, "it occurs twice, with different results"
		case same >= 0:
		case len(out) == limit:
			errs = append(errs, fmt.Errorf("%d conditions: at most %d are allowed", len(list), limit))
			return out, errors.Join(errs...)
		default:
			out = append(out, c)
		}
	}
	return out, errors.Join(errs...)
}
