package condition

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Sentence returns the first sentences about a pool: its need, its target and its joined machines, what holds it, what waits, and
// the next step. s is its last tick; nil without one. Times are relative to now.
func Sentence(now time.Time, s *api.Summary, f Facts) string {
	if s == nil {
		return "The pool has no tick yet."
	}
	var parts []string
	old := Old(now, s)
	if old {
		parts = append(parts, "No tick for "+Duration(now.Sub(s.At))+": nothing controls the pool.")
		parts = append(append(parts, waitingTexts(f)...), "At its last tick:")
	}
	switch {
	case s.Failed != "":
		parts = append(parts, "The last tick ended without a decision: "+stop(s.Failed)+" Targets stay as they are.")
	case s.Paused != nil:
		parts = append(parts, "Paused "+stop(pauseText(now, *s.Paused))+" Nothing changes until then.")
	}
	if need := needText(*s); need != "" {
		parts = append(parts, need)
	}
	if old { // nothing is next
		return strings.Join(parts, " ")
	}
	parts = append(parts, waitingTexts(f)...)
	var next []string
	for _, text := range []string{joinText(now, *s), changeText(now, *s), leaveText(now, *s)} {
		if text != "" {
			next = append(next, text)
		}
	}
	if next != nil {
		parts = append(parts, "Next: "+strings.Join(next, "; ")+".")
	}
	return strings.Join(parts, " ")
}

// stop ends a text with one full stop; a text that is cut ends already.
func stop(text string) string {
	text = strings.TrimRight(text, ". ")
	if strings.HasSuffix(text, "…") {
		return text
	}
	return text + "."
}

// needText returns the need and its effect: "Apps need 9.12 machines, max_capacity allows 6: stays 6."
func needText(s api.Summary) string {
	before, after, ok := s.Ordered()
	if !ok {
		return ""
	}
	if s.Leaving > 0 {
		before = max(before, s.Exists) // machines that leave have no target any more
	}
	need, limited := needOf(s), true
	unit := unitOf(s)
	text := "Apps need " + unit(*cmp.Or(s.Unlimited, s.Target))
	if s.Pinned != nil {
		text += ", an operator pinned " + number(*s.Pinned)
	}
	switch {
	case s.Limits != nil && s.Limits.Max != nil && need > *s.Limits.Max+resource.Slack:
		text += ", max_capacity allows " + number(*s.Limits.Max)
	case s.Limits != nil && need < s.Limits.Min-resource.Slack:
		text += ", min_capacity keeps " + number(s.Limits.Min)
	default:
		limited = false
	}
	switch {
	case after > before:
		text += fmt.Sprintf(": grows from %s to %s", number(before), number(after))
	case after < before:
		text += fmt.Sprintf(": shrinks from %s to %s", number(before), number(after))
	default:
		text += ": stays " + number(after)
	}
	if h := heldBy(s, need, after); h != nil && !limited {
		text += ", held: " + cut(h.Why, 140)
	}
	text = stop(text)
	if s.Joined < after-resource.Slack {
		text += fmt.Sprintf(" %s of %s joined.", number(s.Joined), number(after))
	}
	return text
}

// needOf returns the target that a summary with a decision would have without limits: the pin, or the need.
func needOf(s api.Summary) float64 { return *cmp.Or(s.Pinned, s.Unlimited, s.Target) }

// unitOf returns how weights are printed: as machines if each machine of the pool has a weight of 1.
func unitOf(s api.Summary) func(x float64) string {
	machines := 0
	for state, n := range s.NodeCounts {
		if state != string(api.InstanceTerminating) { // its weight does not exist any more
			machines += n
		}
	}
	if len(s.NodeCounts) > 0 && float64(machines) != s.Exists {
		return func(x float64) string { return "a weight of " + number(x) }
	}
	return func(x float64) string {
		if x == 1 {
			return "1 machine"
		}
		return number(x) + " machines"
	}
}

// heldBy returns the first cause that keeps the target from the need, beside the limits that the sentence has; nil: none does.
func heldBy(s api.Summary, need, after float64) *api.Hold {
	direction := api.DirectionUp
	switch whole := resource.Ceil(need); {
	case whole == after:
		return nil
	case whole < after:
		direction = api.DirectionDown
	}
	for _, h := range s.Holds {
		limit := h.Kind == api.HoldLimit && (h.Name == "max_capacity" || h.Name == "min_capacity") || h.Kind == api.HoldOrder && h.Name == string(api.OrderPin)
		if h.Direction == direction && !limit {
			return &h
		}
	}
	return nil
}

// maxWaiting bounds the apps that a sentence names.
const maxWaiting = 2

// waitingTexts returns a sentence for each of the first apps whose instances wait, and one for the others.
func waitingTexts(f Facts) (out []string) {
	more := 0
	for _, a := range f.Apps {
		switch {
		case a.Missing == 0:
		case len(out) == maxWaiting:
			more++
		case a.Why == "":
			out = append(out, fmt.Sprintf("%s of %s%s missing.", prose.Count(a.Missing, "instance"), a.App, are(a.Missing)))
		case strings.HasPrefix(a.Why, never(a.App)):
			text := " fit"
			if a.Missing == 1 {
				text = " fits"
			}
			out = append(out, fmt.Sprintf("%s of %s%s on no machine of the pool: %s", prose.Count(a.Missing, "instance"), a.App, text, stop(cut(a.Why[len(never(a.App)):], 150))))
		default:
			text, each := " wait", " each"
			if a.Missing == 1 {
				text, each = " waits", ""
			}
			if a.Each != "" {
				text += " for " + a.Each + each
			}
			out = append(out, fmt.Sprintf("%s of %s%s: %s", prose.Count(a.Missing, "instance"), a.App, text, stop(cut(a.Why, 100))))
		}
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("So do instances of %s.", prose.Count(more, "more app")))
	}
	return out
}

// never is how the reason of copies that no machine can ever hold begins.
func never(app string) string { return api.PlacesApp{App: app}.NeverText() }

// maxNamed bounds the nodes that a sentence names.
const maxNamed = 3

// joinText returns when the ordered machines join, by the boot times of earlier ones; empty: all joined, or a group of them never boots.
func joinText(now time.Time, s api.Summary) string {
	_, after, ok := s.Ordered()
	stuck := slices.ContainsFunc(s.Holds, func(h api.Hold) bool { return h.Kind == api.HoldBoot })
	if !ok || stuck || s.DryRun || s.Joined >= after-resource.Slack {
		return ""
	}
	if s.Boot == nil {
		return "the missing machines join; no boot time is measured yet"
	}
	launched := s.At // of those that do not exist yet
	if s.Exists >= after-resource.Slack {
		for i, n := range s.Nodes {
			if n.State == api.UnsteadyStarting && !n.Launched.IsZero() && (launched == s.At || n.Launched.After(launched)) {
				launched = s.Nodes[i].Launched
			}
		}
	}
	atLeast := func(d time.Duration) string { return Duration(max(d, time.Second)) }
	half, most := launched.Add(s.Boot.P50), launched.Add(s.Boot.P95+s.Every) // a tick finds that a machine joined
	switch {
	case !most.After(now):
		return fmt.Sprintf("the missing machines join late: 95 %% of the earlier ones joined within %s", atLeast(s.Boot.P95))
	case !half.After(now):
		return fmt.Sprintf("the missing machines join within %s (p95 of the boot times)", atLeast(most.Sub(now)))
	}
	return fmt.Sprintf("the missing machines join in %s (p50 of the boot times) to %s (p95)", atLeast(half.Sub(now)), atLeast(most.Add(-s.Every).Sub(now)))
}

// changeText returns when a cooldown ends that keeps the target from the need; empty: none does.
func changeText(now time.Time, s api.Summary) string {
	_, after, ok := s.Ordered()
	if !ok {
		return ""
	}
	h := heldBy(s, needOf(s), after)
	if h == nil || !h.Until.After(now) {
		return ""
	}
	return fmt.Sprintf("the cooldown ends in %s, then it may %s", Duration(h.Until.Sub(now)), map[api.Direction]string{api.DirectionUp: "grow", api.DirectionDown: "shrink"}[h.Direction])
}

// leaveText returns which machines leave, why, what their instances do, and when at the latest; empty: none leaves.
func leaveText(now time.Time, s api.Summary) string {
	var ids []string
	var why string
	var until time.Time
	tasks, placed := 0, true
	for _, n := range s.Nodes {
		if n.State == api.UnsteadyDraining {
			ids, why = append(ids, n.ID), cmp.Or(why, n.Why)
			tasks, placed = tasks+n.Tasks, placed && (n.Placed || n.Tasks == 0)
			if until.Before(n.Until) {
				until = n.Until
			}
		}
	}
	if len(ids) == 0 {
		return ""
	}
	verb := " leave ("
	if len(ids) == 1 {
		verb = " leaves ("
	}
	text := prose.Count(len(ids), "machine") + verb + strings.Join(ids[:min(len(ids), maxNamed)], ", ")
	if more := len(ids) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if why != "" {
		text += ": " + why
	}
	whose := "their"
	if len(ids) == 1 {
		whose = "its"
	}
	switch {
	case tasks == 1 && placed:
		text += "; " + whose + " 1 instance has a place"
	case tasks > 0 && placed:
		text += fmt.Sprintf("; %s %d instances have places", whose, tasks)
	case tasks > 0:
		text += fmt.Sprintf("; %s left", prose.Count(tasks, "instance"))
	}
	text += ")"
	if until.After(now) {
		text += " in " + Duration(until.Sub(now)) + " at the latest"
	}
	return text
}

// cut returns a text with at most n characters, cut at a word.
func cut(text string, n int) string {
	if len([]rune(text)) <= n {
		return text
	}
	words := strings.Fields(text)
	for len(words) > 1 && len([]rune(strings.Join(words, " "))) > n-1 {
		words = slices.Delete(words, len(words)-1, len(words))
	}
	return strings.Join(words, " ") + "…"
}
