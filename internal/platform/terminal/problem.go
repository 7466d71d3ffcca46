package terminal

import (
	"fmt"
	"io"
	"strings"
)

// Bounds of the lines of a problem on a terminal, in characters. A word or a quoted command that is longer is not cut.
const (
	longestLine  = 100
	shortestLine = 40 // for a narrow terminal
)

// detail begins the lines below the first one of a problem.
const detail = "    "

// Problem writes a problem after "! ". On a terminal, its first line has at most 100 characters, and the details are below it.
// Elsewhere it is one line, so that a search prints all of it.
func Problem(w io.Writer, text string) {
	fmt.Fprintf(w, "! %s\n", strings.Join(ProblemLines(text, Width(w)), "\n"+detail))
}

// ProblemLines returns the lines of a problem on a terminal with these columns; one line for 0 columns. A line ends after a part of
// the text if there is a suitable one, otherwise after a word. It does not end inside of quotes, where commands are.
func ProblemLines(text string, columns int) (lines []string) {
	text = strings.ReplaceAll(text, "\n", "; ")
	if columns == 0 {
		return []string{text}
	}
	rest := []rune(text)
	n := min(max(columns, shortestLine), longestLine) - len(detail)
	for len(rest) > n {
		at := breakOf(rest, n)
		if at < 0 {
			break
		}
		lines = append(lines, strings.TrimRight(string(rest[:at]), " "))
		rest = []rune(strings.TrimLeft(string(rest[at:]), " "))
	}
	return append(lines, string(rest))
}

// breakOf returns the index of the space where a line of at most n characters ends; negative: there is no space.
func breakOf(text []rune, n int) int {
	part, clause, word := -1, -1, -1
	inQuotes := false
	paired := strings.Count(string(text), "\"")%2 == 0
	for i, r := range text {
		if r == '"' && paired {
			inQuotes = !inQuotes
		}
		if r != ' ' || i == 0 || inQuotes {
			continue
		}
		if i > n {
			if word < 0 {
				word = i // after a word that is longer than a line
			}
			break
		}
		switch before := text[i-1]; {
		case strings.ContainsRune(";:.", before):
			part = i
		case before == ',' || i+1 < len(text) && text[i+1] == '(':
			clause = i
		}
		word = i
	}
	short := n / 2 // a shorter line would name the object only
	for _, at := range []int{part, clause} {
		if at >= short {
			return at
		}
	}
	return word
}
