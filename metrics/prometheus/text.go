package prometheus

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/source"
)

// variable is a variable of a query at its place.
type variable struct {
	name    string
	at, end int  // bytes of the text, with the "$"
	quote   byte // ", ' or `; 0: outside of quotes
	regex   bool // the text in the quotes is a regular expression
}

// variables finds the variables of a query.
func variables(text string) (found []variable, err error) {
	var quote byte
	regex, before := false, "" // before: the last two characters outside of quotes that are no space
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0 && quote != '`' && c == '\\':
			i++
		case quote != 0 && c == quote:
			quote, before = 0, ""
		case c == '$':
			// Without a name, "$" ends a regular expression, or $1 is a group of label_replace.
			if name, end := source.VariableAt(text, i); name != "" {
				found = append(found, variable{name: name, at: i, end: end, quote: quote, regex: regex})
				i = end - 1
			}
		case quote != 0:
		case c == '#':
			i += strings.IndexByte(text[i:]+"\n", '\n')
		case c == '"' || c == '\'' || c == '`':
			quote, regex = c, before == "=~" || before == "!~"
		case c != ' ' && c != '\t' && c != '\n' && c != '\r':
			before = last(before+string(c), 2)
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("has a %c without an end", quote)
	}
	return found, nil
}

func last(s string, n int) string { return s[max(0, len(s)-n):] }

// mistake describes what is wrong with the variables of a query; empty: nothing.
func mistake(text string) string {
	found, err := variables(text)
	if err != nil {
		return err.Error()
	}
	for _, v := range found {
		switch {
		case !slices.Contains(metrics.Variables(), v.name):
			return fmt.Sprintf("has the unknown variable $%.100s: want $%s; a group of a replacement is ${%.100s}", v.name, strings.Join(metrics.Variables(), ", $"), v.name)
		case v.quote == 0:
			return fmt.Sprintf(`has $%s outside of quotes: write it as in {app="$app"}`, v.name)
		}
	}
	return ""
}

// expand replaces the variables of a query without a mistake by values.
func expand(text string, values map[string]string) (string, error) {
	found, err := variables(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	done := 0
	for _, v := range found {
		value := values[v.name]
		if v.regex {
			value = regexp.QuoteMeta(value)
		}
		if v.quote == '`' && strings.Contains(value, "`") {
			return "", fmt.Errorf("$%s is %q, which cannot stand between backquotes", v.name, value)
		}
		b.WriteString(text[done:v.at])
		b.WriteString(escaped(value, v.quote))
		done = v.end
	}
	return b.String() + text[done:], nil
}

// escaped returns a value as it stands within quotes.
func escaped(value string, quote byte) string {
	switch quote {
	case '"':
		q := strconv.Quote(value)
		return q[1 : len(q)-1]
	case '\'':
		q := strconv.Quote(value)
		return strings.ReplaceAll(strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`), "'", `\'`)
	}
	return value
}

// ofRange finds the modifiers by which a value depends on the ends of the window.
var ofRange = regexp.MustCompile(`@\s*(start|end)\s*\(`)
