package supervise

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ReachableByOthers returns nil if every user can reach a file or folder and execute or search it, by the modes of all folders
// on its path. It ignores access control lists.
func ReachableByOthers(path string) error {
	info, err := os.Stat(path)
	for err == nil {
		const executable fs.FileMode = 0o001
		if info.Mode()&executable == 0 {
			return fmt.Errorf("%s has mode %04o, and other users need execute permission on it", path, info.Mode().Perm())
		}
		if isSelf := path == ownProgram; isSelf || path == string(filepath.Separator) {
			return nil // the kernel does not check the folders above a running program
		}
		path = filepath.Dir(path)
		info, err = os.Stat(path)
	}
	return err
}

// ownProgram is the path of this process's program, even if the file was moved.
const ownProgram = "/proc/self/exe"
