package terminal

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestProblem(t *testing.T) {
	for text, want := range map[string]string{
		"": "! \n", "short": "! short\n",
		"no tick since 03:10:05, 12m ago: the autoscaler has not reported since 03:10:04; bootstrap restarts it at 03:22:10": "! no tick since 03:10:05, 12m ago: the autoscaler has not reported since 03:10:04;\n    bootstrap restarts it at 03:22:10\n",
		"node i-0123456789abcdef0 was silent at the last tick: what it runs is unknown, so the pool does not shrink; \"weir node status i-0123456789abcdef0\" shows its last verdicts": "! node i-0123456789abcdef0 was silent at the last tick:\n" +
			"    what it runs is unknown, so the pool does not shrink;\n    \"weir node status i-0123456789abcdef0\" shows its last verdicts\n",
		`a quote " without an end, and more text, ` + strings.Repeat("x", 70): `! a quote " without an end, and more text,` + "\n    " + strings.Repeat("x", 70) + "\n",
		"first\nsecond": "! first; second\n",
	} {
		if got := "! " + strings.Join(ProblemLines(text, 200), "\n    ") + "\n"; got != want {
			t.Errorf("lines of %q:\n%swant\n%s", text, got, want)
		}
		var out bytes.Buffer // no terminal
		if Problem(&out, text); strings.Count(out.String(), "\n") != 1 {
			t.Errorf("Problem(%q) = %q, want one line", text, out.String())
		}
	}
}

// The lines have all words of the text in order, and none is longer than the bound, except for one word or one quoted command.
func TestLinesOfProblemsKeepWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[a-zé]{1,30}[;:.,]?|"[a-z]{1,9}( [a-z]{1,9}){0,4}"|\([a-z]{1,9}\)|[a-z]{120}`), 0, 40).Draw(t, "words")
		text := strings.Join(words, " ")
		columns := rapid.IntRange(1, 200).Draw(t, "columns")
		n := min(max(columns, 40), 100) - 4
		lines := ProblemLines(text, columns)
		if got := strings.Join(lines, " "); got != text {
			t.Fatalf("lines %q are not the text %q", lines, text)
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > n && !slices.Contains(words, line) {
				t.Errorf("%q has more than %d characters", line, n)
			}
			if strings.Count(line, `"`)%2 != 0 {
				t.Errorf("%q ends inside of quotes", line)
			}
		}
	})
}
