package main

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/ui/apiserver"
)

// Users of this test that nothing else has.
const (
	ownerUser    = 54401
	strangerUser = 54402
)

// open is what may answer a stranger, and why.
type open struct {
	do, on, answer string // regular expressions for the whole of each
	why            string
}

// mayAnswer is all that another user of the host gets from "weir up". What is refused before
// anything is to be seen is not in it.
func mayAnswer() []open {
	return []open{
		{"listen", "tcp of up", "INFO", "a NATS server sends its version and limits before a client proves itself"},
		{"OPTIONS /", "tcp of up", "200", "versitygw answers what a browser may ask of it; the answer has no data"},
		{"[A-Z]+ /.*", "tcp of up", "40[0-9]", "the bucket answers a request without a signature with an error"},
		{"POST /api/v2/write.*", "tcp of metrics", "401", "a write without the token is refused"},
		{"[A-Z]+ /api/v2/write.*", "tcp of metrics", "405", "the intake takes writes alone"},
		{"[A-Z]+ /.*", "tcp of metrics", "404", "there is nothing else"},
		{"[A-Z]+ /.*", "tcp of web", "40[13]", "the dashboard and the API refuse what has no token, and a request of another site"},
		{"connect", "socket of signal", "connected, closed without a byte", "an abstract socket has no mode: the listener looks at its peer and closes"},
		{"connect", "socket of up", "connected, answers 403", "versitygw behind the port of the bucket: it refuses what has no signature, as there"},
		{"enter", "data(/run(/local.default)?)?", "granted", "where each signal has a user of its own, that user passes here; it cannot list"},
		{"list|enter|read|execute", "data/releases(/.*)?", "granted", "the users of signals read and execute releases there; a release has no secrets"},
	}
}

// TestUpAdmitsNoStranger runs "weir up" as one user, and as another one tries every file, folder,
// socket and port of it, and every process. What answers must be in the table. A test that is not
// root can be no other user: it tries the ports, which do not distinguish users, and checks modes.
func TestUpAdmitsNoStranger(t *testing.T) {
	t.Parallel()
	root := os.Geteuid() == 0
	owners := map[string]int{"own user": 0}
	if root {
		owners = map[string]int{"user": ownerUser, "root": 0}
	}
	rows := make([]bool, len(mayAnswer()))
	var mu sync.Mutex
	t.Cleanup(func() {
		for i, used := range rows {
			if row := mayAnswer()[i]; root && !used && !t.Failed() {
				t.Errorf("nothing answers to %q on %s any more: remove the row", row.do, row.on)
			}
		}
	})
	for name, owner := range owners {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := ownedFolder(t, owner)
			u := launchUpAs(t, owner, nil, data)
			u.waitFor(t, "ready in")
			u.weir(t, "app", "set", "web", "--instances", "2", "--cpus", "0.2", "--mem", "64", "--command", webCommand)
			u.waitRunning(t, "web", 2)
			u.runningSignal(t, "apps")
			r := reconnoitre(t, data)
			r.expectSecretsHidden(t)
			user, all := strangerUser, append(r.ports(), r.local()...)
			if !root {
				user, all = 0, r.ports()
				r.expectPrivate(t)
			}
			got := attemptsBy(t, user, all)
			answered := r.compare(t, got)
			t.Logf("%d attempts; what answers:", len(got))
			mu.Lock()
			defer mu.Unlock()
			for i, row := range mayAnswer() {
				if answered[i] > 0 {
					rows[i] = true
					t.Logf("%3d times: %s on %s: %s (%s)", answered[i], row.do, row.on, row.answer, row.why)
				}
			}
		})
	}
}

// ownedFolder returns a folder for the data of a user. Only that user can create and read it.
func ownedFolder(t *testing.T, owner int) string {
	t.Helper()
	above, err := os.MkdirTemp("", "weir-owned-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(above); err != nil {
			t.Error(err)
		}
	})
	err = os.Chmod(above, 0o755)
	if owner != 0 {
		err = errors.Join(err, os.Chown(above, owner, owner))
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(above, "data")
}

// site is what there is of a "weir up".
type site struct {
	data      string
	paths     map[string]fs.FileMode
	processes map[string]string // by id: its role
	tcp       map[string]string // by address: the role of its process
	unix      map[string]string // by name: the same
}

// reconnoitre lists what there is, with the eyes of this process.
func reconnoitre(t *testing.T, data string) site {
	t.Helper()
	s := site{data: data, paths: map[string]fs.FileMode{}, processes: map[string]string{}, tcp: map[string]string{}, unix: map[string]string{}}
	err := filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it is in use
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			s.paths[path] = info.Mode()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	inodes := map[string]string{} // of sockets: the role of their process
	for _, p := range processesWith(data) {
		s.processes[p.id] = p.role()
		links, _ := filepath.Glob("/proc/" + p.id + "/fd/*")
		for _, link := range links {
			if to, _ := os.Readlink(link); strings.HasPrefix(to, "socket:[") {
				inodes[strings.Trim(to, "socket:[]")] = s.processes[p.id]
			}
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		const listens = "0A"
		for _, f := range procTable(t, table) {
			if role, ours := inodes[f[9]]; ours && f[3] == listens {
				s.tcp[procAddress(t, f[1])] = role
			}
		}
	}
	for _, f := range procTable(t, "unix") {
		if role, ours := inodes[f[6]]; ours && len(f) > 7 {
			s.unix[f[7]] = role
		}
	}
	if len(s.paths) < 20 || len(s.processes) < 6 || len(s.tcp) != 4 || len(s.unix) < 2 {
		t.Fatalf("%d paths, processes %v, ports %v, sockets %v: want all of weir up", len(s.paths), s.processes, s.tcp, s.unix)
	}
	return s
}

// procTable returns the fields of each line of a table of sockets.
func procTable(t *testing.T, name string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile("/proc/net/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); strings.Contains(f[0], ":") && f[0] != "Num" {
			rows = append(rows, f)
		}
	}
	return rows
}

// procAddress reads an address as the kernel prints it: words in the order of the host.
func procAddress(t *testing.T, text string) string {
	t.Helper()
	host, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	if err != nil {
		t.Fatal(err)
	}
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	addr, ok := netip.AddrFromSlice(raw)
	var number uint16
	if _, err := fmt.Sscanf(port, "%x", &number); err != nil || !ok {
		t.Fatalf("address %q of /proc/net", text)
	}
	return netip.AddrPortFrom(addr, number).String()
}

// ports returns the attempts over TCP.
func (s site) ports() (all []attempt) {
	requests := []string{"POST /api/v2/write?bucket=web", "POST /api/v1/pools/local/default/pause"}
	for _, path := range []string{
		"/", "/metrics", "/healthz", "/readyz", "/varz", "/connz", "/jsz", "/health", "/debug/pprof/", "/api/v2/write", "/api/v1/query?query=up",
		"/weir-signals", "/weir-signals?list-type=2", "/weir-signals/weir/instance_count", "/weir-signals/intruder",
		"/pools", "/pools/local/default", "/events", "/assets/x", "/pools?token=x", "/api/v1/pools", "/api/v1/events", "/api/v1/openapi.yaml",
	} {
		for _, method := range []string{"GET", "PUT", "DELETE", "OPTIONS", "HEAD"} {
			requests = append(requests, method+" "+path)
		}
	}
	for path := range s.paths {
		if object, ok := strings.CutPrefix(path, filepath.Join(s.data, "s3", "buckets")); ok && strings.HasSuffix(object, ".json") {
			requests = append(requests, "GET "+object, "PUT "+object, "DELETE "+object)
		}
	}
	for address := range s.tcp {
		for _, do := range append(requests, "listen", "use NATS") {
			all = append(all, attempt{Do: do, On: address})
		}
	}
	return all
}

// local returns the attempts on files, sockets and processes.
func (s site) local() (all []attempt) {
	try := func(on string, do ...string) {
		for _, one := range do {
			all = append(all, attempt{Do: one, On: on})
		}
	}
	for path, mode := range s.paths {
		switch {
		case mode.IsDir():
			try(path, "list", "create in", "enter")
		case mode&fs.ModeSymlink != 0:
			try(path, "follow")
		case mode&fs.ModeSocket != 0:
			try(path, "connect")
		default:
			try(path, "read", "write", "execute")
		}
	}
	for name := range s.unix {
		try(name, "connect")
	}
	for id := range s.processes {
		dir := "/proc/" + id
		for _, name := range []string{"environ", "mem", "maps", "auxv", "io", "syscall", "stack"} {
			try(filepath.Join(dir, name), "read a byte")
		}
		try(filepath.Join(dir, "mem"), "write")
		try(filepath.Join(dir, "fd"), "list")
		for _, name := range []string{"cwd", "root", "exe"} {
			try(filepath.Join(dir, name), "follow")
		}
		try(id, "signal", "trace")
	}
	return all
}

// name returns what an attempt was made on, without what differs between two runs.
func (s site) name(a attempt) string {
	if role, ok := s.tcp[a.On]; ok {
		return "tcp of " + role
	}
	if role, ok := s.unix[a.On]; ok {
		return "socket of " + role
	}
	if role, ok := s.processes[a.On]; ok {
		return "process " + role
	}
	if rest, ok := strings.CutPrefix(a.On, "/proc/"); ok {
		id, file, _ := strings.Cut(rest, "/")
		return "proc/" + file + " of " + s.processes[id]
	}
	rest, _ := strings.CutPrefix(a.On, s.data)
	return "data" + rest
}

// compare reports each answer that the table does not have. It returns how many answers belong
// to each row.
func (s site) compare(t *testing.T, got []attempt) (answered []int) {
	t.Helper()
	answered = make([]int, len(mayAnswer()))
	for _, a := range got {
		if a.Answer == "" {
			continue
		}
		row := slices.IndexFunc(mayAnswer(), func(o open) bool {
			return whole(o.do, a.Do) && whole(o.on, s.name(a)) && whole(o.answer, a.Answer)
		})
		if row < 0 {
			t.Errorf("a stranger may %q on %s: %s; close it, or say in the table why it may", a.Do, s.name(a), a.Answer)
			continue
		}
		answered[row]++
	}
	return answered
}

func whole(pattern, text string) bool {
	return regexp.MustCompile("^(?:" + pattern + ")$").MatchString(text)
}

// expectSecretsHidden compares the command lines, which all users can read, with the secrets.
func (s site) expectSecretsHidden(t *testing.T) {
	t.Helper()
	token, err := os.ReadFile(daemon.MetricsToken(s.data))
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := apiserver.ReadTokens(daemon.WebTokens(s.data))
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{strings.TrimSpace(string(token)), tokens[0].Secret, testSecret}
	for file, key := range map[string]string{"bus/address.json": "token", "s3/keys.json": "secret"} {
		text, err := os.ReadFile(filepath.Join(s.data, file))
		found := regexp.MustCompile(`"` + key + `": ?"([^"]+)"`).FindSubmatch(text)
		if err != nil || found == nil {
			t.Fatalf("%s has no %s: %v", file, key, err)
		}
		secrets = append(secrets, string(found[1]))
	}
	for id, role := range s.processes {
		line, err := os.ReadFile("/proc/" + id + "/cmdline")
		if err != nil {
			continue // it has ended
		}
		for _, secret := range secrets {
			if strings.Contains(string(line), secret) {
				t.Errorf("the command line of %s has a secret", role)
			}
		}
	}
}

// expectPrivate checks that other users cannot enter the data folder.
func (s site) expectPrivate(t *testing.T) {
	t.Helper()
	const others = 0o077
	if mode := s.paths[s.data]; mode.Perm()&others != 0 {
		t.Errorf("data folder has mode %v, want nothing for other users", mode)
	}
}

// process is one of a "weir up".
type process struct {
	id   string
	args []string
}

// processesWith returns the processes that know a data folder, but this one, and what they
// started: a keeper has no record of it.
func processesWith(data string) (found []process) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	belongs := map[string]bool{}
	parents := map[string]string{}
	lines := map[string]string{}
	for _, dir := range dirs {
		id := filepath.Base(dir)
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		stat, _ := os.ReadFile(filepath.Join(dir, "stat"))
		// "ID (NAME) STATE PARENT ...", where the name may have anything in it.
		if f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])); len(f) > 1 {
			parents[id] = f[1]
		}
		lines[id] = string(line)
		belongs[id] = strings.Contains(string(line), data) || strings.Contains(string(env), data)
	}
	own := fmt.Sprint(os.Getpid())
	belongs[own] = false
	for id, line := range lines {
		if belongs[id] || belongs[parents[id]] && id != own {
			found = append(found, process{id, strings.Split(strings.TrimRight(line, "\x00"), "\x00")})
		}
	}
	slices.SortFunc(found, func(a, b process) int { return cmp.Compare(number(a.id), number(b.id)) })
	return found
}

// role returns what a process is: up, metrics, bootstrap, autoscaler, agent, keeper, signal or app.
func (p process) role() string {
	roles := map[string]string{"keep": "keeper"}
	for _, name := range []string{"up", "metrics", "web", "bootstrap", "autoscaler", "agent", "signal"} {
		roles[name] = name
	}
	if len(p.args) > 1 && roles[p.args[1]] != "" {
		return roles[p.args[1]]
	}
	if strings.Contains(p.args[0], "instance_count") || strings.HasPrefix(p.args[0], "/proc/self/fd/") {
		return "signal"
	}
	return "app"
}

// TestIntruderReadsNothingOfEndedProcess: a process of an application may end before its parent reads its status.
func TestIntruderReadsNothingOfEndedProcess(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/bin/true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	maps := fmt.Sprintf("/proc/%d/maps", cmd.Process.Pid)
	if got := (attempt{Do: "read a byte", On: maps}).make(); got != "" {
		t.Errorf("read a byte of %s: %s, want a refusal", maps, got)
	}
	if got := (attempt{Do: "read a byte", On: "/proc/self/maps"}).make(); got != "granted" {
		t.Errorf("read a byte of own maps: %q, want granted", got)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
