package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/cli/progress"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
)

// TestLineProtocol writes metrics as an application does, and reads them as a
// signal's author does.
func TestLineProtocol(t *testing.T) {
	t.Parallel()
	u := startUp(t, t.TempDir())
	at := regexp.MustCompile(`http://\S+/api/v2/write\?bucket=`).FindString(u.output())
	token, err := os.ReadFile(daemon.MetricsToken(u.data))
	if err != nil {
		t.Fatal(err)
	}
	authorization := "Token " + strings.TrimSpace(string(token))
	post := func(app, body string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at+app, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", authorization)
		resp, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	if code, text := post("web", "http,zone=a requests=7,errors=1i\nhttp,zone=b requests=8\n"); code != http.StatusNoContent {
		t.Fatalf("write: %d %s", code, text)
	}
	if code, text := post("web", "http requests=7\nhttp requests=\"many\"\n"); code != http.StatusBadRequest || !strings.Contains(text, `"line":2`) {
		t.Errorf("write of a text: %d %s", code, text)
	}
	authorization = "Token wrong"
	if code, text := post("web", "http requests=7\n"); code != http.StatusUnauthorized || !strings.Contains(text, "token file") {
		t.Errorf("write with another token: %d %s, want 401 and where the token is", code, text)
	}
	got := u.weir(t, "metrics", "get", "--app", "web", "--regex", "^web,http_", "--output", "json")
	for _, want := range []string{`"name":"web,http_errors","dimensions":{"zone":"a"}`, `"name":"web,http_requests","dimensions":{"zone":"b"}`} {
		if !strings.Contains(got, want) {
			t.Errorf("metrics get = %s, want %s", got, want)
		}
	}
}

// TestPublishOnTag runs the recipes that "signal init" writes into an empty folder. That of Go fetches the SDK in its
// version from a module proxy.
func TestPublishOnTag(t *testing.T) {
	t.Parallel()
	u := startUp(t, t.TempDir())
	dir := filepath.Join(t.TempDir(), "rps")
	const version = "v0.9.0"
	proxy := sdkProxy(t, version)
	program := []string{"PATH=" + os.Getenv("WEIR_TEST_BIN") + ":" + os.Getenv("PATH"), asWeir + "=1", "WEIR_DATA=" + u.data}
	write := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("WEIR_TEST_BIN"), "weir"), "signal", "init", "rps", "--dir", dir, "--sdk-version", version)
	write.Env = slices.Concat(os.Environ(), proxy, program)
	if out, err := offspring.CombinedOutput(write); err != nil {
		t.Fatalf("%v: %v\n%s", write.Args, err, out)
	}
	python := filepath.Join(t.TempDir(), "depth")
	u.weir(t, "signal", "init", "depth", "--dir", python, "--lang", "python")
	key := filepath.Join(t.TempDir(), "publish.key")
	u.weir(t, "release", "keygen", key)
	for _, folder := range []string{dir, dir, python, python} { // a job that is run again publishes the same bytes
		cmd := exec.CommandContext(t.Context(), "./publish.sh")
		cmd.Dir = folder
		cmd.Env = append(slices.Concat(os.Environ(), proxy, program), "NAMESPACE=shop", "TAG=v1.0.0", "SIGN_KEY="+key, "PLATFORMS="+runtime.GOOS+"-"+runtime.GOARCH)
		if out, err := offspring.CombinedOutput(cmd); err != nil {
			t.Fatalf("publish.sh in %s: %v\n%s", folder, err, out)
		}
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil || !strings.Contains(string(mod), "weirkeeper "+version+"\n") || strings.Contains(string(mod), "replace") {
		t.Errorf("go.mod requires another SDK: %s, %v", mod, err)
	}
	var needs []string
	for _, line := range regexp.MustCompile(`(?m)^\t(\S+) \S+ // indirect$`).FindAllStringSubmatch(string(mod), -1) {
		needs = append(needs, line[1])
	}
	want := []string{"golang.org/x/net", "golang.org/x/sys", "golang.org/x/text",
		"google.golang.org/genproto/googleapis/rpc", "google.golang.org/grpc", "google.golang.org/protobuf"}
	if !slices.Equal(needs, want) {
		t.Errorf("the SDK needs %q, want %q", needs, want)
	}
	for _, name := range []string{"rps", "depth"} {
		if got := u.weir(t, "release", "list", "shop"); !regexp.MustCompile(`shop +` + name + ` +v1\.0\.0 +\S+ +yes +no`).MatchString(got) {
			t.Errorf("list:\n%s\nwant %s", got, name)
		}
	}
	if got := u.weir(t, "__complete", "--data", u.data, "--timeout", "1m", "release", "list", "shop/"); !strings.HasPrefix(got, "shop/depth\nshop/rps\n") {
		t.Errorf("completion of release list: %q, want both names", got)
	}
}

// TestBars reads the progress of a download on a terminal: one line for each release.
func TestBars(t *testing.T) {
	main, terminal := openTerminal(t)
	b := progress.New(terminal)
	for _, done := range []int64{0, 50, 100} {
		b.Show(release.Ref{Namespace: "shop", Name: "rps", Version: "v1"}, done, 100)
		b.Show(release.Ref{Namespace: "shop", Name: "queue", Version: "v2"}, done, 100)
	}
	b.Close()
	terminal.Close()
	text, _ := io.ReadAll(main) // ends in an error when the terminal is closed
	for _, want := range []string{"shop/rps@v1", "shop/queue@v2", "100"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("terminal shows %q, want %q", text, want)
		}
	}
	var nowhere strings.Builder
	b = progress.New(&nowhere)
	b.Show(release.Ref{Namespace: "shop", Name: "rps", Version: "v1"}, 1, 2)
	b.Close()
	if nowhere.Len() > 0 {
		t.Errorf("on no terminal it writes %q", nowhere.String())
	}
}

// openTerminal opens a pseudo terminal.
func openTerminal(t *testing.T) (main, terminal *os.File) {
	t.Helper()
	main, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { main.Close() })
	n, err := unix.IoctlGetUint32(int(main.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(main.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return main, terminal
}

// TestProgressOnATerminal publishes and fetches a release: a terminal gets bytes and rate, and another output nothing.
func TestProgressOnATerminal(t *testing.T) {
	t.Parallel()
	u := startUp(t, t.TempDir())
	signal := filepath.Join(t.TempDir(), "signal")
	if err := os.WriteFile(signal, []byte("#!/bin/sh\nexec cat\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i, args := range [][]string{{"release", "publish", "shop/rps@v1", signal}, {"release", "fetch", "shop/rps@v1"}} {
		text := withoutColors(onTerminal(t, 120, nil, append(args, "--data", u.data)...))
		if rate := regexp.MustCompile(`shop/rps@v1 .*\[[0-9.]+K?B in .*/s\]`); !rate.MatchString(text) {
			t.Errorf("weir %q prints %q, want the bytes and the rate", args, text)
		}
		args = slices.Clone([][]string{{"release", "publish", "shop/rps@v2", signal}, {"release", "fetch", "shop/rps@v2"}}[i])
		if r := inData(u.data)(args...); r.code != 0 || r.stderr != "" {
			t.Errorf("weir %q without a terminal: %+v, want no progress", args, r)
		}
	}
}
