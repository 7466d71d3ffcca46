package natsconf_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
)

// document returns the tables of docs/bus.md, in Markdown: subjects, keys and streams with their roles.
func document() string {
	var b strings.Builder
	line := func(cells ...string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line("subject", "publish", "subscribe", "content")
	line("---", "---", "---", "---")
	for _, row := range slices.Concat(roles.Rows(), roles.LocalRows()) {
		content := row.Content
		if slices.Contains(row.Subscribe, roles.Machines) {
			content += "; only on the bus of a data folder"
		}
		switch {
		case row.Legacy:
			content += "; only with legacy DEAs"
		case row.Answers == roles.OneAnswer:
			content += "; answered"
		case row.Answers == roles.Several:
			content += "; several answers"
		}
		line("`"+forReaders(row.Subject)+"`", rolesOf(row.Publish), rolesOf(row.Subscribe), content)
	}
	b.WriteString("\n")
	line("bucket", "keys", "read", "write", "content")
	line("---", "---", "---", "---", "---")
	for _, key := range roles.Keys() {
		line("`"+key.Bucket("C", "P")+"`", "`"+forReaders(key.Name)+"`", rolesOf(key.Read), rolesOf(key.Write), key.Content)
	}
	b.WriteString("\n")
	line("stream", "subjects", "read", "content")
	line("---", "---", "---", "---")
	for _, s := range roles.Streams() {
		line("`"+s.Name("C", "P")+"`", fmt.Sprintf("`%s`", forReaders(strings.Join(s.Subjects, "`, `"))), rolesOf(s.Read), s.Content)
	}
	return b.String()
}

// forReaders replaces the placeholders by the letters that the document explains.
func forReaders(subject string) string {
	return strings.NewReplacer("{cluster}", "C", "{pool}", "P", "{node}", "N").Replace(subject)
}

func rolesOf(all []roles.Role) string {
	if len(all) == 0 {
		return "–"
	}
	var names []string
	for _, r := range all {
		names = append(names, string(r))
	}
	return strings.Join(names, ", ")
}
