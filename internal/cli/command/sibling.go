package command

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Self executes this binary again, even if its file was replaced.
const Self = "/proc/self/exe"

// sibling returns the path of another program in this program's folder.
func sibling(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find %s beside this program: %w", name, err)
	}
	path := filepath.Join(filepath.Dir(self), name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is missing beside %s: %w; build both with \"make build\"", name, self, err)
	}
	return path, nil
}

// ReplaceWithLocal replaces this process with weir-local from the same folder, with the same command line. It returns
// only with an error.
func ReplaceWithLocal(what string) error {
	path, err := sibling("weir-local")
	if err == nil {
		err = os.NewSyscallError("execute "+path, syscall.Exec(path, os.Args, os.Environ()))
	}
	return fmt.Errorf("run %q: %w", what, err)
}

// OpenWeir opens the weir in this program's folder. The returned path runs that binary until the file is closed, even
// if weir is replaced meanwhile.
func OpenWeir() (program string, file *os.File, err error) {
	path, err := sibling("weir")
	if err != nil {
		return "", nil, err
	}
	if file, err = os.Open(path); err != nil {
		return "", nil, fmt.Errorf("open the weir that runs the daemons: %w", err)
	}
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), file.Fd()), file, nil
}
