// Package manpages has the command that writes the manual pages of a package: one page for each command of weir. Only a
// build with the tag "man" has the command, and deploy/packages/build.sh makes that build. In each process the library of
// the pages would use 240 kB of memory.
//
//	root.AddCommand(manpages.Commands(version)...)
//
// The text of a page is the help of its command. The package holds no state. The command changes the help texts, so the
// process ends after it.
package manpages
