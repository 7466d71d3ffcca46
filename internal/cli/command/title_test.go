package command

import (
	"os"
	"strings"
	"testing"
)

// Only a title that begins with "weir: " changes the process name.
func TestNameProcess(t *testing.T) {
	name := func() string {
		text, err := os.ReadFile("/proc/self/comm")
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	before := name()
	for _, title := range []string{"", "weir", "bin/weir", "/proc/self/exe"} {
		if NameProcess(title); name() != before {
			t.Errorf("after NameProcess(%q) it is %q, want %q", title, name(), before)
		}
	}
	for title, want := range map[string]string{
		"weir: autoscaler default": "weir-autoscaler", "weir: keeper": "weir-keeper", "weir: longer-than-the-kernel-keeps x": "weir-longer-tha",
	} {
		if NameProcess(title); name() != want {
			t.Errorf("after NameProcess(%q) it is %q, want %q", title, name(), want)
		}
	}
}
