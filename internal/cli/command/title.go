package command

import (
	"os"
	"strings"
)

// NameProcess sets the process name from its title, argv[0], for pgrep and top: weir-autoscaler for "weir: autoscaler
// default". It ignores other titles.
func NameProcess(title string) {
	daemon, ours := strings.CutPrefix(title, "weir: ")
	if !ours {
		return
	}
	name, _, _ := strings.Cut(daemon, " ")
	_ = os.WriteFile("/proc/self/comm", []byte("weir-"+name), 0) // on error the name stays that of the executable
}
