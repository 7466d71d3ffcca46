package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sys/unix"
)

// intruderName is the name under which the test binary is an intruder: a process of another
// user that makes the attempts of its input.
const intruderName = "intruder"

// attempt is one thing that an intruder tries.
type attempt struct {
	Do string `json:"do"` // a key of attempts, or an HTTP request: "GET /metrics"
	On string `json:"on"` // a path, a socket, an address or the id of a process
	// Answer is what it got; empty: it was refused before anything was to be seen.
	Answer string `json:"answer,omitempty"`
}

const (
	intruderWaits  = 5 * time.Second // for an answer to a request
	intruderAtOnce = 16
)

// intrude makes the attempts of standard input, and prints them with their answers.
func intrude() int {
	var all []attempt
	err := json.NewDecoder(os.Stdin).Decode(&all)
	turns := make(chan struct{}, intruderAtOnce)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			all[i].Answer = all[i].make()
		})
	}
	wg.Wait()
	if err := errors.Join(err, json.NewEncoder(os.Stdout).Encode(all)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// attemptsBy has another user make these attempts; user 0: the user of this process.
func attemptsBy(t *testing.T, user int, all []attempt) []attempt {
	t.Helper()
	in, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("WEIR_TEST_BIN"), intruderName))
	cmd.Stdin, cmd.Dir = bytes.NewReader(in), "/"
	cmd.SysProcAttr = asUser(user)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &all)
	}
	if err != nil {
		t.Fatalf("the intruder failed: %v\n%s", err, complaint.String())
	}
	return all
}

// asUser returns what starts a process as a user; 0: as the user of this process.
func asUser(user int) *syscall.SysProcAttr {
	if user == 0 {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
}

// attempts are what an intruder does to paths, sockets and processes.
func attempts() map[string]func(on string) string {
	return map[string]func(string) string{
		"list": func(on string) string { return granted(os.ReadDir(on)) },
		"create in": func(on string) string {
			path := filepath.Join(on, fmt.Sprintf("intruder-%d", os.Getpid()))
			return granted(path, errors.Join(os.WriteFile(path, nil, 0o600), os.Remove(path)))
		},
		"enter":   func(on string) string { return granted(on, unix.Access(on, unix.X_OK)) },
		"execute": func(on string) string { return granted(on, unix.Access(on, unix.X_OK)) },
		"read":    func(on string) string { return granted(readable(on)) },
		// The kernel gives each user the empty "maps" of a process that has ended, until its parent reads its status.
		"read a byte": func(on string) string { return granted(readByte(on)) },
		"write":       func(on string) string { return granted(on, openToWrite(on)) },
		"follow":      func(on string) string { return granted(os.Readlink(on)) },
		"connect":     connectUnix,
		"listen":      banner,
		"use NATS":    useNATS,
		"signal":      func(on string) string { return granted(on, syscall.Kill(number(on), 0)) },
		"trace":       func(on string) string { return granted(on, trace(number(on))) },
	}
}

// make makes the attempt and returns the answer.
func (a attempt) make() string {
	if do, known := attempts()[a.Do]; known {
		return do(a.On)
	}
	method, path, _ := strings.Cut(a.Do, " ")
	return request(method, "http://"+a.On+path)
}

func granted(_ any, err error) string {
	if err != nil {
		return ""
	}
	return "granted"
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		panic("not a process: " + text)
	}
	return n
}

// readable opens and reads a file. An empty one is readable.
func readable(path string) (any, error) {
	_, err := readByte(path)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return nil, err
}

func readByte(path string) (any, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	_, err = f.Read(make([]byte, 1))
	return nil, err
}

func openToWrite(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// connectUnix connects to a socket, sends a request, and returns what comes back.
func connectUnix(address string) string {
	c, err := net.Dial("unix", address)
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(intruderWaits))
	_, _ = c.Write([]byte("GET /weir-signals?list-type=2 HTTP/1.0\r\nHost: weir\r\n\r\n")) // it may be closed already
	text := make([]byte, 4096)
	n, err := c.Read(text)
	var status int
	if _, bad := fmt.Sscanf(string(text[:n]), "HTTP/1.1 %d", &status); bad == nil {
		return fmt.Sprintf("connected, answers %d", status)
	}
	switch {
	case n > 0:
		return "connected, answers"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "connected, silent"
	}
	return "connected, closed without a byte"
}

// banner returns the first word that a TCP server sends unasked.
func banner(address string) string {
	c, err := net.DialTimeout("tcp", address, intruderWaits)
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(intruderWaits))
	text := make([]byte, 4096)
	n, _ := c.Read(text)
	word, _, _ := strings.Cut(string(text[:n]), " ")
	return word
}

// useNATS connects without a token, and with those that a stranger may guess, and returns what
// works then.
func useNATS(address string) string {
	for _, option := range []nats.Option{nats.Token(""), nats.Token("weir"), nats.UserInfo("weir", "weir")} {
		nc, err := nats.Connect("nats://"+address, option, nats.Timeout(intruderWaits), nats.NoReconnect())
		if errors.Is(err, nats.ErrAuthorization) {
			continue
		}
		if err != nil { // another server
			return ""
		}
		defer nc.Close()
		answer := "connected"
		if nc.Publish("weir.intruder", nil) == nil && nc.Flush() == nil {
			answer += ", publishes"
		}
		if _, err := nc.Request("$JS.API.INFO", nil, intruderWaits); err == nil {
			answer += ", reads JetStream"
		}
		return answer
	}
	return ""
}

func trace(pid int) error {
	if err := unix.PtraceSeize(pid); err != nil {
		return err
	}
	return unix.PtraceDetach(pid)
}

// request returns the status of an answer over HTTP; empty: the server does not speak it.
func request(method, url string) string {
	r, err := http.NewRequest(method, url, strings.NewReader("intruder value=1\n"))
	if err != nil {
		panic(err)
	}
	client := http.Client{Timeout: intruderWaits, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	return strconv.Itoa(answer.StatusCode)
}
