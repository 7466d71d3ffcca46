package supervise

import (
	"fmt"
	"sync"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

// Callers that arrive during a scan wait for the next one, which serves all of them.
func TestScansAreShared(t *testing.T) {
	child := start(t, newLauncher(t), shell("exec sleep 1000", newMark(t), &listing{}))
	childEnd := survivors{groups: map[int]group{child.group.id: child.group}, tag: child.tag, since: child.group.start}
	var all scans
	all.scanning.Lock()
	var asking sync.WaitGroup
	asking.Go(func() {
		if found, err := all.search(childEnd); found != 1 || err != nil {
			t.Errorf("search of what lives = %d, %v, want 1", found, err)
		}
	})
	for i := range 9 {
		asking.Go(func() {
			if found, err := all.search(survivors{tag: fmt.Sprint("nobody", i)}); found != 0 || err != nil {
				t.Errorf("search without survivors = %d, %v, want 0", found, err)
			}
		})
	}
	await.True(t, "all wait for one look", func() bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		return all.next != nil && len(all.next.survivorSets) == 10
	})
	all.scanning.Unlock()
	asking.Wait()
	if all.next != nil {
		t.Errorf("another look is to be made for %d", len(all.next.survivorSets))
	}
	awaitEnd(t, child)
}

// A killed process counts until it is gone: while it exits, the kernel shows its environment no longer, but it still
// holds its files.
func TestExitingProcessSurvives(t *testing.T) {
	var lines listing
	child := start(t, newLauncher(t), shell("setsid sleep 1000 & echo $!; wait", newMark(t), &lines))
	await.True(t, "a process in another session", func() bool {
		pids := pidsIn(lines.all())
		return len(pids) == 1 && commandLine(pids[0]) == "sleep 1000"
	})
	e, err := readEntry(pidsIn(lines.all())[0])
	if err != nil {
		t.Fatal(err)
	}
	q := survivors{tag: child.tag, killed: killed{}}
	if !q.killMember(e, func() (string, bool) { return readTag(e.pid) }) {
		t.Error("a carrier of the tag does not survive")
	}
	exiting := func() (string, bool) { return "", true }
	if !q.killMember(e, exiting) {
		t.Error("the killed process does not survive while it exits")
	}
	e.start++
	if q.killMember(e, exiting) {
		t.Error("another process with the same number survives")
	}
	awaitEnd(t, child)
}
