// Weir is the program weir of the tests of cmd/weir. It ends with the process that started it, also if that is killed. It
// starts faster than the test binary, which also contains what only the tests and weir-local use.
package main

import (
	"os"
	_ "time/tzdata" // as in cmd/weir

	"github.com/weirkeeper/weirkeeper/internal/cli"
	"github.com/weirkeeper/weirkeeper/internal/platform/children"
)

func main() {
	supervised := len(os.Args) > 1 && (os.Args[1] == "keep" || os.Args[1] == "signal")
	if os.Getenv("WEIR_TEST_AS_WEIR") != "" && !supervised {
		if err := children.EndWithParent(); err != nil {
			panic(err)
		}
	}
	os.Exit(cli.Main())
}
