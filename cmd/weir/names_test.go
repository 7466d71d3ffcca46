package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ps shows what each process of "weir up" is, by its title and by its short name.
func TestProcessesHaveNames(t *testing.T) {
	t.Parallel()
	u := startUp(t, t.TempDir(), "--pool", "web")
	eventually(t, "a name of each process", func() error {
		var titles, names []string
		for _, pid := range descendants(u.cmd.Process.Pid) {
			title, name := namesOf(pid)
			titles, names = append(titles, title), append(names, name)
		}
		for _, want := range []string{"weir: bootstrap web", "weir: autoscaler web", "weir: signal __default__", "weir: agent i-", "weir: keeper"} {
			if !slices.ContainsFunc(titles, func(title string) bool { return strings.HasPrefix(title, want) }) {
				return fmt.Errorf("no process %q in %q", want, titles)
			}
		}
		for _, want := range []string{"weir-bootstrap", "weir-autoscaler", "weir-signal", "weir-agent", "weir-keeper"} {
			if !slices.Contains(names, want) {
				return fmt.Errorf("no process of the name %q in %q", want, names)
			}
		}
		for i, title := range titles {
			if strings.HasPrefix(title, "/proc/") || names[i] == "exe" {
				return fmt.Errorf("a process is %q, %q", title, names[i])
			}
		}
		return nil
	})
	if title, name := namesOf(u.cmd.Process.Pid); filepath.Base(title) != "weir" || name != "weir-local" {
		t.Errorf("weir up is %q, %q, want weir, weir-local", title, name)
	}
}

// namesOf returns the argv[0] of a process, and its short name. Both are empty for one
// that has ended.
func namesOf(pid int) (title, name string) {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	title, _, _ = strings.Cut(string(line), "\x00")
	return title, strings.TrimSpace(string(comm))
}

// descendants returns the children of a process, and theirs.
func descendants(pid int) (all []int) {
	children := map[int][]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		var child, parent int
		var state string
		text, _ := os.ReadFile(file)
		end := strings.LastIndex(string(text), ")") // of the short name, which may hold anything
		if n, _ := fmt.Sscan(string(text[end+1:]), &state, &parent); n == 2 {
			fmt.Sscan(filepath.Base(filepath.Dir(file)), &child)
			children[parent] = append(children[parent], child)
		}
	}
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		all = append(all, children[next[0]]...)
		next = append(next, children[next[0]]...)
	}
	return all
}
