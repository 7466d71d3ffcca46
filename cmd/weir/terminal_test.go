package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/sys/unix"
)

// onTerminal runs weir as a process on a terminal of so many columns, and returns what the
// terminal gets, with line feeds alone at the ends of lines.
func onTerminal(t *testing.T, columns uint16, env []string, args ...string) string {
	t.Helper()
	main, terminal := openTerminal(t)
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(os.Getenv("WEIR_TEST_BIN"), "weir"), args...)
	cmd.Env = append(append(os.Environ(), asWeir+"=1", "LC_ALL=", "LC_CTYPE=", "LANG=C.UTF-8", "TERM=xterm-256color"), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	read := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(main) // ends in an error when the terminal is closed
		read <- string(text)
	}()
	err := cmd.Run()
	terminal.Close()
	text := strings.ReplaceAll(<-read, "\r\n", "\n")
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		t.Fatalf("weir %q: %v", args, err)
	}
	return text
}

const wideRow = `{"name":"wide","pool":"default","instances":2,"version":"v1","cpus":0,"mem":0,"disk":0,"command":"echo größe; echo \u001b[2J one two three four five six seven eight nine ten"}`

// withoutColors returns a text without the escape sequences of colours.
func withoutColors(text string) string {
	return regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(text, "")
}

// runningCheck is the line with which doctor shows its running check, and removes it.
var runningCheck = regexp.MustCompile(`\r\x1b\[K(checking [a-z ]+ \.\.\.)?`)

// TestTerminals prints tables, warnings and errors on terminals of several kinds: no control
// character, colours only where they are wanted, and no other character than the terminal shows.
func TestTerminals(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	storedApps(t, data, map[string]string{"wide": wideRow, "web": webRow})
	for _, c := range []struct {
		name    string
		columns uint16
		env     []string
		ascii   bool
		plain   bool // no colours
	}{
		{"80 columns", 80, nil, false, false},
		{"60 columns", 60, nil, false, false},
		{"no columns", 0, nil, false, false},
		{"NO_COLOR", 60, []string{"NO_COLOR=1"}, false, true},
		{"dumb", 60, []string{"TERM=dumb"}, false, true},
		{"no TERM", 60, []string{"TERM="}, false, true},
		{"UTF-8 off", 60, []string{"LANG=C"}, true, false},
		{"UTF-8 off for all", 60, []string{"LC_ALL=POSIX"}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, args := range [][]string{
				{"app", "list"}, {"app", "get", "wide"}, {"app", "get", "wide", "-o", "json"}, {"status"}, {"doctor"}, {"explain"}, {"ap"},
				{"app", "get", "größe\x1b[2J"}, {"pause", "--for", "2d"}, {"help", "app"}, {"state", "check"},
				{"config", "validate", "--config-dir", "/nö\x1b[2J"},
			} {
				text := onTerminal(t, c.columns, c.env, append(args, "--data", data)...)
				if text == "" {
					t.Errorf("weir %q prints nothing", args)
				}
				text = runningCheck.ReplaceAllString(text, "")
				if !c.plain {
					text = withoutColors(text)
				}
				for _, r := range text {
					if unicode.IsControl(r) && r != '\n' && r != '\t' || c.ascii && r >= 0x7f {
						t.Errorf("weir %q prints the character %q in\n%q", args, r, text)
						break
					}
				}
			}
			list := onTerminal(t, c.columns, c.env, "app", "list", "--data", data)
			if head := "\x1b[1mNAME"; strings.HasPrefix(list, head) == c.plain {
				t.Errorf("weir app list prints %q, want %q at its start: %v", list, head, !c.plain)
			}
			list = withoutColors(list)
			want := "COMMAND    echo größe; echo \\x1b[2J one two"
			if c.ascii {
				want = "COMMAND    echo gr\\u00f6\\u00dfe; echo \\x1b[2J one two"
			}
			if c.columns == 0 {
				want = "v1       echo größe; echo \\x1b[2J one two"
			}
			if !strings.Contains(list, want) {
				t.Errorf("weir app list prints\n%s\nwant %q", list, want)
			}
		})
	}
	if r := inData(data)("app", "list"); r.code != 0 || !strings.Contains(r.stdout, "v1       echo größe; echo \\x1b[2J one two") {
		t.Errorf("weir app list without a terminal: %+v", r)
	}
}
