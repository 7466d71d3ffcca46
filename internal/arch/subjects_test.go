package arch

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// firstSubject is the commit after which subjects keep the rule.
const firstSubject = "1a8a9c5"

// maxSubject bounds a subject, in characters.
const maxSubject = 72

// Commit subjects keep their form. A clone without history passes. "make lint" runs this test, without the test cache.
func TestCommitSubjects(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "git", "log", "--no-merges", "--format=%h %s", firstSubject+"..HEAD").Output()
	if err != nil {
		t.Logf("git log: %v: the subjects are not checked", err)
		return
	}
	for line := range strings.Lines(string(out)) {
		hash, subject, _ := strings.Cut(strings.TrimSpace(line), " ")
		for _, p := range subjectProblems(subject) {
			t.Errorf("%s: %q %s", hash, subject, p)
		}
	}
}

func TestSubjectRules(t *testing.T) {
	for subject, want := range map[string]string{
		"harmonizer: keep last healthy copy when scaling down":                     "",
		"cmd/weir, internal/platform/bus: process warnings":                        "",
		"README: add picture":                                                      "",
		"keep last healthy copy":                                                   "package: verb",
		"harmonizer: Keep last healthy copy":                                       "package: verb",
		"harmonizer: kept last healthy copy when scaling down and more words here": "",
		"harmonizer: keeping last healthy copy":                                    "imperative",
		"harmonizer: keeps last healthy copy":                                      "imperative",
		"harmonizer: added copy":                                                   "imperative",
		"harmonizer: keep last healthy copy.":                                      "full stop",
		"harmonizer: " + strings.Repeat("a", 61):                                   "73 characters",
		"harmonizer: report what is known":                                         `"what is"`,
	} {
		problems := subjectProblems(subject)
		if want == "" && len(problems) > 0 {
			t.Errorf("%q: problems %q, want none", subject, problems)
		}
		if want != "" && (len(problems) != 1 || !strings.Contains(problems[0], want)) {
			t.Errorf("%q: problems %q, want one with %q", subject, problems, want)
		}
	}
}

var subjectForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_./*{}, -]*: ([a-z]+)\b.*$`)

// imperatives end like other forms of a verb.
var imperatives = []string{"embed", "feed", "need", "seed", "speed", "shed", "bring", "ring", "process", "pass", "address", "focus", "guess", "press", "compress", "cross", "discuss", "miss", "bypass", "access"}

// subjectProblems returns what is wrong with the subject of a commit.
func subjectProblems(subject string) (problems []string) {
	form := subjectForm.FindStringSubmatch(subject)
	switch {
	case form == nil:
		problems = append(problems, `is not of the form "package: verb object"`)
	case slices.Contains(imperatives, form[1]):
	case strings.HasSuffix(form[1], "ed"), strings.HasSuffix(form[1], "ing"), strings.HasSuffix(form[1], "s"):
		problems = append(problems, "has no verb in the imperative after the package")
	}
	if strings.HasSuffix(subject, ".") {
		problems = append(problems, "ends with a full stop")
	}
	if n := utf8.RuneCountInString(subject); n > maxSubject {
		problems = append(problems, fmt.Sprintf("has %d characters, want at most %d", n, maxSubject))
	}
	for _, found := range inDialect(subject) {
		problems = append(problems, fmt.Sprintf("has %q, a word of the dialect", found))
	}
	return problems
}
