package spelling

import (
	"fmt"
	"strings"
)

// DidYouMean returns the end of an error about a wrong word: the nearest of the right ones, if one is near.
func DidYouMean(word string, right []string) string {
	if near := Nearest(word, right); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}

// shownNames bounds the names that Suggest lists.
const shownNames = 12

// Suggest returns the end of an error about a name that does not exist: the nearest of the
// names that do, and the first of these if that is not all; empty if there is no name.
func Suggest(name string, names []string) (text string) {
	if len(names) == 0 {
		return ""
	}
	if text = DidYouMean(name, names); text != "" && len(names) == 1 {
		return text // the list would repeat it
	}
	text += " (it has " + strings.Join(names[:min(len(names), shownNames)], ", ")
	if more := len(names) - shownNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + ")"
}
