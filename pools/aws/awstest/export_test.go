package awstest

import "slices"

// Operations are the names of all that a Server can be asked for.
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
