package command

import (
	"os"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/daemon"
)

// A data folder that all users can change is refused.
func TestDataFolderOfAllUsers(t *testing.T) {
	r := Root{Settings: daemon.Settings{Data: t.TempDir()}}
	if _, err := r.DataDir(); err != nil {
		t.Errorf("folder of this user: %v", err)
	}
	if err := os.Chmod(r.Data, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := r.DataDir(); err == nil || !strings.Contains(err.Error(), `has mode 0777, so all users can change its content: run "chmod o-w `) {
		t.Errorf("folder of all users: %v", err)
	}
	r.Data += "/not/there"
	if _, err := r.DataDir(); err != nil {
		t.Errorf("no folder: %v", err)
	}
}
