package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/weirkeeper/weirkeeper/internal/platform/testsize"
)

// TestScripts runs the scripts of testdata/script. Beside the commands of testscript,
// there are:
//
//	eventually REGEXP COMMAND ...   repeat a command until it succeeds and its output matches
//	busy VARIABLE                   set a variable to an address in use
//	free VARIABLE                   set a variable to a free address
//	fetch REGEXP URL                read a page until it matches
//	exits CODE COMMAND ...          require an exit code
//	json FILE                       require that the file, or stdout, is JSON
//	machine VARIABLE FILE           set a variable to the first machine in the file
//
// The condition "[full]" is true where tests run all cases.
func TestScripts(t *testing.T) {
	t.Parallel()
	clusterman, err := filepath.Abs(filepath.Join("testdata", "clusterman"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			give, err := installations.lease(t.Context(), env.T().Log)
			if err != nil {
				return err
			}
			env.Defer(give)
			env.Setenv("PATH", os.Getenv("WEIR_TEST_BIN")+":"+env.Getenv("PATH"))
			env.Setenv("BIN", os.Getenv("WEIR_TEST_BIN"))
			env.Setenv(asWeir, "1")
			env.Setenv("WEIR_SIGNALS_DIR", os.Getenv("WEIR_SIGNALS_DIR"))
			env.Setenv("WEIR_DATA", filepath.Join(env.WorkDir, "data"))
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("CLUSTERMAN", clusterman)
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name != "full" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			return testsize.Full(), nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"eventually": scriptEventually,
			"busy":       scriptBusy,
			"decides":    scriptDecides,
			"exits":      scriptExits,
			"fetch":      scriptFetch,
			"free":       scriptFree,
			"json":       scriptJSON,
			"machine":    scriptMachine,
		},
	})
}

func scriptEventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually REGEXP COMMAND ...")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	eventually(scriptTB{ts: ts}, fmt.Sprintf("%q from %q", args[0], args[1:]), func() error {
		err := ts.Exec(args[1], args[2:]...)
		out := ts.ReadFile("stdout")
		if err == nil && !want.MatchString(out) {
			err = errors.New(out)
		}
		return err
	})
}

func scriptBusy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: busy VARIABLE")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { listener.Close() })
	ts.Setenv(args[0], listener.Addr().String())
}

// scriptTB fails a script as a test fails.
type scriptTB struct {
	testing.TB
	ts *testscript.TestScript
}

func (s scriptTB) Helper()           {}
func (s scriptTB) Fatal(args ...any) { s.ts.Fatalf("%s", fmt.Sprint(args...)) }
