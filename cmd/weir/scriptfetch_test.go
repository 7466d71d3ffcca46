package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
)

func scriptFree(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: free VARIABLE")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv(args[0], listener.Addr().String())
	ts.Check(listener.Close())
}

func scriptFetch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: fetch REGEXP URL")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	client := http.Client{Timeout: patience}
	eventually(scriptTB{ts: ts}, fmt.Sprintf("%q from %s", args[0], args[1]), func() error {
		response, err := client.Get(args[1])
		if err != nil {
			return err
		}
		defer response.Body.Close()
		page, err := io.ReadAll(response.Body)
		if err == nil && !want.Match(page) {
			err = errors.New(string(page))
		}
		return err
	})
}

func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := command.ExitOK
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		failed, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%q: %v", args[1:], err)
		}
		code = failed.ExitCode()
	}
	if code != want {
		ts.Fatalf("%q: exit code %d, want %d: %s", args[1:], code, want, ts.ReadFile("stderr"))
	}
}

func scriptJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: json FILE")
	}
	if text := ts.ReadFile(args[0]); !json.Valid([]byte(text)) {
		ts.Fatalf("%s is no JSON: %.1000q", args[0], text)
	}
}
