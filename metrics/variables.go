package metrics

import "strings"

// Variables returns the names of the variables that the Text of a Query may contain, each after a "$".
func Variables() []string { return []string{"app", "cluster", "pool"} }

// VariablesOf returns the values of those variables that a text contains. So queries without a variable are equal for all
// apps.
func VariablesOf(text string, values map[string]string) Dimensions {
	used := Dimensions{}
	for _, name := range Variables() {
		if strings.Contains(text, "$"+name) {
			used[name] = values[name]
		}
	}
	return used
}
