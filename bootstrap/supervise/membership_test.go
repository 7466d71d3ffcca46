package supervise

import (
	"os"
	"strconv"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

func TestBelongsTo(t *testing.T) {
	mark := newMark(t)
	launcher := newLauncher(t)
	lines := &listing{}
	// The process prints its own number after it has left its group.
	child := start(t, launcher, shell("setsid sh -c 'echo $$; exec sleep 1000' & exec sleep 1000", mark, lines))
	other := start(t, launcher, shell("exec sleep 1000", mark, lines))
	await.True(t, "the pid of the process that left the group", func() bool { return len(lines.all()) > 0 })
	left, err := strconv.Atoi(lines.all()[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name        string
		pid, leader int
		want        bool
	}{
		{"the leader", child.PID(), child.PID(), true},
		{"who left the group", left, child.PID(), true},
		{"who left the group, of another child", left, other.PID(), false},
		{"another child", other.PID(), child.PID(), false},
		{"the supervisor", os.Getpid(), child.PID(), false},
		{"the child, of its member", child.PID(), left, true}, // both carry the tag of one child
		{"another pid namespace", 0, child.PID(), false},
		{"no leader", child.PID(), 0, false},
		{"a leader without a tag", child.PID(), os.Getpid(), false},
		{"no process", 1 << 30, child.PID(), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := BelongsTo(c.pid, c.leader); got != c.want {
				t.Errorf("BelongsTo(%d, %d) = %v, want %v", c.pid, c.leader, got, c.want)
			}
		})
	}
}

// A process that has left its group and its environment is recognized by its cgroup, where one exists.
func TestChildCgroup(t *testing.T) {
	for _, c := range []struct{ name, path, tag, want string }{
		{"the child's", "/user/weir-ABC/7", "ABC.7", "/user/weir-ABC/7"},
		{"within the child's", "/user/weir-ABC/7/inner/x", "ABC.7", "/user/weir-ABC/7"},
		{"another child's", "/user/weir-ABC/77", "ABC.7", ""},
		{"another launcher's", "/user/weir-AB/7", "ABC.7", ""},
		{"everybody's", "/user", "ABC.7", ""},
		{"root", "/", "ABC.7", ""},
		{"none", "", "ABC.7", ""},
		{"a launcher's tag", "/weir-ABC/7", "ABC", ""},
		{"no tag", "/weir-/", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := childCgroup(c.path, c.tag); got != c.want {
				t.Errorf("childCgroup(%q, %q) = %q, want %q", c.path, c.tag, got, c.want)
			}
		})
	}
	for path, want := range map[string]bool{"/a/weir-A/7": true, "/a/weir-A/7/x": true, "/a/weir-A/77": false, "": false} {
		if got := within(path, "/a/weir-A/7"); got != want {
			t.Errorf("within(%q) = %v, want %v", path, got, want)
		}
	}
}

func TestOwnTag(t *testing.T) {
	for value, want := range map[string]string{"": "", "A.1": "A.1", "A.1:B.2": "B.2"} {
		if got := ownTag(value); got != want {
			t.Errorf("ownTag(%q) = %q, want %q", value, got, want)
		}
	}
}
