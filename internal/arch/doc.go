// Package arch holds the layer rules of the house, as a test.
//
// The table in table_test.go gives every package its row; the rules that no
// package may break are in rules_test.go; the bounds of types and packages, with
// the exceptions of today, in bounds_test.go. The test parses the tree itself: what
// it reads is what the build reads, and a cached result notices every change.
//
// A new package adds its row first. A rule that is in the way is discussed, not
// weakened.
package arch
