package testprograms

import (
	"os"
	"syscall"
)

// Write writes a program that this process executes soon. The kernel does not execute a file that is open for writing
// ("text file busy"), and a process that starts meanwhile has it open until it executes its own program. So none starts.
func Write(path, text string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, []byte(text), 0o755)
}
