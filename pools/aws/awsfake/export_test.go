package awsfake

import "slices"

// Operations returns the names of all supported operations.
func Operations() []string {
	var names []string
	for _, s := range services() {
		for name := range s.operations {
			names = append(names, s.name+" "+name)
		}
	}
	slices.Sort(names)
	return names
}
