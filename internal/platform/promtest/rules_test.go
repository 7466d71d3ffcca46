package promtest_test

import (
	"testing"

	"github.com/goccy/go-yaml"
)

type ruleGroup struct {
	Rules []struct{ Alert, Expr string }
}

// rules returns the groups of the alert rules.
func rules(t *testing.T) []ruleGroup {
	t.Helper()
	var file struct{ Groups []ruleGroup }
	if err := yaml.Unmarshal([]byte(read(t, "weir-alerts.yml")), &file); err != nil {
		t.Fatal(err)
	}
	return file.Groups
}
