package prometheus

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"pgregory.net/rapid"
)

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		`sum(rate(http_requests_total{app="$app",pool='$pool'}[1m]))`: "",
		`up{job=~"web$"}`: "",
		`label_replace(up, "to", "$1", "a", "(.*)")`:        "",
		`label_replace(up, "to", "${x}", "a", "(?P<x>.*)")`: "",
		"up # of $app, \"":       "",
		"up{a=`$cluster`}":       "",
		`up{app="\"$app"}`:       "",
		`up{app=$app}`:           "outside of quotes",
		`up{app="$application"}`: "unknown variable $application",
		`up{app="web}`:           `has a " without an end`,
		`$pool`:                  "outside of quotes",
	} {
		if got := mistake(text); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// Whatever a variable is, the parser of Prometheus reads exactly its value from the expression.
func TestVariablesAreQuotedSafely(t *testing.T) {
	for form, match := range map[string]labels.MatchType{
		`up{app="$app"}`: labels.MatchEqual, `up{app='$app'}`: labels.MatchEqual, `up{app != "$app", b="\"'"}`: labels.MatchNotEqual,
		`up{app=~"$app"}`: labels.MatchRegexp, "up{app =~\n'$app'}": labels.MatchRegexp, `up{app!~"$app"}`: labels.MatchNotRegexp,
		"up{app=`$app`}": labels.MatchEqual, "up{app=~`$app`}": labels.MatchRegexp, `up{a="$$",app="$app"}`: labels.MatchEqual,
	} {
		rapid.Check(t, func(t *rapid.T) {
			value := rapid.StringOf(rapid.Rune().Filter(func(r rune) bool { return r != utf8.RuneError })).Draw(t, "value")
			text, err := expand(form, map[string]string{"app": value})
			if strings.Contains(value, "`") && strings.Contains(form, "`") {
				if err == nil {
					t.Fatalf("%q stands in %s", value, form)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			parsed, err := parser.NewParser(parser.Options{}).ParseExpr(text)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			for _, m := range parsed.(*parser.VectorSelector).LabelMatchers {
				if m.Name != "app" {
					continue
				}
				if m.Type != match {
					t.Fatalf("%s: the operator is %v", text, m.Type)
				}
				is := m.Type == labels.MatchEqual || m.Type == labels.MatchRegexp
				if m.Matches(value) != is || m.Matches(value+"x") == is {
					t.Fatalf("%s does not match exactly %q", text, value)
				}
			}
		})
	}
}

func FuzzVariables(f *testing.F) {
	f.Add(`up{app="$app"}`)
	f.Fuzz(func(t *testing.T, text string) {
		if mistake(text) != "" {
			return
		}
		if got, err := expand(text, map[string]string{"app": "$app", "cluster": "$cluster", "pool": "$pool"}); err == nil && !strings.Contains(text, "$") && got != text {
			t.Errorf("%q became %q", text, got)
		}
	})
}
