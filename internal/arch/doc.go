// Package arch tests the structure of the module: layers, purity, and bounds of types and packages.
//
// The table in table_test.go has the row of every package. The rules for all packages are in rules_test.go. The
// bounds of types and packages, with their exceptions, are in bounds_test.go. The test parses the tree itself, so it
// sees what the build sees, and the test cache notices every change.
//
// A new package adds its row first. If a rule is in the way, discuss it; do not weaken it.
package arch
