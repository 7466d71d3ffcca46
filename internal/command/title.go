package command

import (
	"os"
	"strings"
)

// NameProcess names this process after its title, argv[0], for pgrep and top:
// weir-autoscaler for "weir: autoscaler default". Another title changes nothing.
func NameProcess(title string) {
	daemon, ours := strings.CutPrefix(title, "weir: ")
	if !ours {
		return
	}
	name, _, _ := strings.Cut(daemon, " ")
	_ = os.WriteFile("/proc/self/comm", []byte("weir-"+name), 0) // without it, the name is that of the executed path
}
