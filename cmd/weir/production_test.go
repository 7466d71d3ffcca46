package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/cli/natsinit"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/s3gateway/s3test"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
)

// productionPage has console blocks for several hosts, which TestProductionPage types.
const productionPage = "production.md"

// TestProductionPage types docs/production.md. Each host of the page is a folder. The NATS servers, the bucket, the
// API of AWS and all daemons are real processes and servers on loopback.
//
//   - "console HOST..." has commands for these hosts; "LANGUAGE FILE" is a file in the folder of admin.
//   - "systemctl" starts what the unit's file says, with its credentials and environment.
//   - apt-get, scp, ssh and chown are scripts: files of the package, copies between the folders, commands on them, nothing.
//   - Each instance of the Auto Scaling group has a copy of the folder of image, and metadata of its own.
func TestProductionPage(t *testing.T) {
	t.Parallel()
	installations.take(t)
	p := newProduction(t)
	text, err := os.ReadFile(filepath.Join(p.tree, "docs", productionPage))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	took := map[string]time.Duration{}
	var sections []string
	for _, b := range blocksOf(string(text)) {
		section := ""
		for _, line := range lines[:b.line] {
			if name, ok := strings.CutPrefix(line, "## "); ok {
				section = name
			}
		}
		if !slices.Contains(sections, section) {
			sections = append(sections, section)
		}
		began := time.Now()
		p.follow(b)
		took[section] += time.Since(began)
		t.Logf("line %d: %v", b.line, time.Since(began).Round(time.Millisecond))
	}
	for _, section := range sections {
		t.Logf("%-20s %v", section, took[section].Round(100*time.Millisecond))
	}
	p.logMemory()
}

const (
	productionGroup = "web-asg"
	late            = 20 * time.Second // after which a command that is repeated is logged
)

// production is the world of the page.
type production struct {
	*testing.T
	tree, hosts, bin string
	cloud            *awsfake.Server
	nats             *bustest.Installed
	restarted        int                 // hosts on which nats-server was started
	texts            []string            // pairs of a text of the page and that of the test
	exports          map[string]string   // of each host, for sh
	enabled          map[string][]string // units without a process, by host
	machines         map[string]func()   // by id: the end of its agent
	ends             map[string]func()   // of units that run, by "HOST UNIT"

	mu    sync.Mutex
	units []*unitProcess // that were started
}

func newProduction(t *testing.T) *production {
	t.Helper()
	tree, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p := &production{
		T: t, tree: tree, hosts: filepath.Join(dir, "hosts"), bin: filepath.Join(dir, "bin"),
		exports: map[string]string{}, enabled: map[string][]string{}, machines: map[string]func(){}, ends: map[string]func(){},
	}
	for path, text := range map[string]string{
		"apt-get": `set -e; r=$HOSTS/$HOST; mkdir -p $r/etc/weir/pools $r/etc/weir/credentials $r/units
cp $WEIR_SOURCES/deploy/systemd/*.service $r/units; cp $WEIR_SOURCES/deploy/packages/etc/*.env $r/etc/weir; echo installed`,
		"chown": "exit 0",
		// ssh runs a command on files of another host.
		"ssh": `h=$2; shift 2; exec sh -c "$(echo "$*" | sed "s|$HOSTS/$HOST/|$HOSTS/${h%.example.org}/|g")"`,
		// scp copies files to the folder of a host, and writes its paths into them.
		"scp": `set -e; case $1 in -*) shift; esac
for last; do :; done; to=${last%%:*}; to=${to%.example.org}; path=${last#*:}; path=$HOSTS/$to${path#$HOSTS/$HOST}
case $path in */nats) mkdir -p $path; esac
while [ $# -gt 1 ]; do cp -r "$1" "$path"; shift; done
grep -rlI "$HOSTS/$HOST/" $HOSTS/$to/etc | xargs -r sed -i "s|$HOSTS/$HOST/|$HOSTS/$to/|g"`,
	} {
		if err := writeProgram(filepath.Join(p.bin, path), text); err != nil {
			t.Fatal(err)
		}
	}
	for _, host := range []string{"admin", "w1", "w2", "image", "n1", "n2", "n3"} {
		if err := os.MkdirAll(filepath.Join(p.hosts, host, "home"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(p.hosts, host, "etc"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	endAllBelow(t, p.hosts)
	bucket := s3test.Serve(t, "weir-signals")
	p.cloud = awstest.New(t, awsfake.Config{Region: "us-east-1", Start: time.Now(), Boot: time.Second, Leave: time.Second})
	p.cloud.AddGroup(awsfake.ASG{
		Name: productionGroup, Tags: map[string]string{"weir:pool": "prod/web"}, Min: 1, Max: 20, Desired: 2, ProtectNew: true,
	})
	for _, pool := range []string{"batch", "night"} { // without machines
		p.cloud.AddGroup(awsfake.ASG{Name: pool + "-asg", Tags: map[string]string{"weir:pool": "prod/" + pool}, Max: 10, ProtectNew: true})
	}
	p.texts = []string{
		"n1=n1.example.org", "n1=127.0.0.1", "n2=n2.example.org", "n2=127.0.0.2", "n3=n3.example.org", "n3=127.0.0.3",
		"127.0.0.1:9480", fmt.Sprintf("127.0.0.1:%d", bustest.Ports(t, 1)[0]),
		"https://hooks.example.org", "http://127.0.0.1:9", // the port discard: no process listens there
		"region: us-east-1,", fmt.Sprintf("region: us-east-1, endpoint_url: %q, path_style: true,", awstest.WithS3(t, p.cloud, bucket.Endpoint)),
	}
	return p
}

func writeProgram(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return testprograms.Write(path, "#!/bin/sh\n"+text+"\n")
}

// root returns the folder of a host.
func (p *production) root(host string) string { return filepath.Join(p.hosts, host) }

// adapt returns a text of the page with the addresses of the test, and the paths of a host.
func (p *production) adapt(host, text string) string {
	pairs := slices.Clone(p.texts)
	if p.nats != nil {
		for i, address := range p.nats.URLs {
			pairs = append(pairs, fmt.Sprintf("tls://n%d.example.org:4222", i+1), fmt.Sprintf("%q", address))
		}
	}
	return strings.NewReplacer(append(pairs, "/etc/", p.root(host)+"/etc/", "/var/lib/", p.root(host)+"/var/lib/")...).Replace(text)
}

func (p *production) follow(b block) {
	p.Helper()
	fields := strings.Fields(b.info)
	switch {
	case len(fields) < 2:
	case fields[0] == "console":
		for _, host := range fields[1:] {
			p.console(host, b)
		}
	default:
		path := filepath.Join(p.root("admin"), "home", fields[1])
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = daemon.WriteFile(path, []byte(p.adapt("admin", strings.Join(b.lines, "\n")+"\n")))
		}
		if err != nil {
			p.Fatal(err)
		}
	}
}

func (p *production) console(host string, b block) {
	p.Helper()
	command, want := "", []string(nil)
	for i, line := range append(b.lines, "$ ") {
		next, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			want = append(want, line)
			continue
		}
		if command != "" {
			p.command(host, b.line+i, command, want)
		}
		command, want = next, nil
	}
}

// command runs a command on a host until its output is that of the page.
func (p *production) command(host string, line int, command string, want []string) {
	p.Helper()
	switch fields := strings.Fields(command); {
	case fields[0] == "export":
		p.exports[host] = p.adapt(host, command)
	case command == "systemctl restart nats-server":
		p.startServer(host)
	case command == "systemctl reload nats-server":
		p.nats.Reload(p.T, host)
	case command == "systemctl enable weir-agent":
		p.enabled[host] = append(p.enabled[host], "weir-agent")
		p.bootMachines(host)
	case strings.HasPrefix(command, "systemctl enable --now "):
		for _, unit := range fields[3:] {
			end := sync.OnceFunc(p.startUnit(host, unit))
			p.Cleanup(end)
			p.ends[host+" "+unit] = end
		}
	case strings.HasPrefix(command, "systemctl disable --now "):
		p.ends[host+" "+fields[3]]()
	default:
		// A command without output is typed once. The others are repeated, as a reader would.
		what := fmt.Sprintf("line %d: on %s: %s\nwith the output\n%s\n", line, host, command, strings.Join(want, "\n"))
		began, logged := time.Now(), false
		eventually(p, what, func() error {
			out, err := offspring.CombinedOutput(p.shell(host, command))
			if !pattern(want).Match(out) {
				if !logged && time.Since(began) > late {
					logged = true
					p.Logf("%sbut after %v\n%s", what, late, out)
				}
				return fmt.Errorf("%s (%v)", out, err)
			}
			if len(want) == 0 && err != nil {
				p.Fatalf("%s%s: %v", what, out, err)
			}
			return nil
		})
	}
}

func (p *production) shell(host, command string) *exec.Cmd {
	prelude := ""
	if p.exports[host] != "" {
		prelude = p.exports[host] + "; "
	}
	cmd := exec.CommandContext(context.Background(), "sh", "-c", prelude+p.adapt(host, command))
	cmd.Dir = filepath.Join(p.root(host), "home")
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = p.environment(host)
	return cmd
}

func (p *production) environment(host string) []string {
	return append(os.Environ(), "PATH="+p.bin+":"+os.Getenv("WEIR_TEST_BIN")+":"+os.Getenv("PATH"), asWeir+"=1",
		"AWS_ACCESS_KEY_ID="+s3test.AccessKey, "AWS_SECRET_ACCESS_KEY="+s3test.SecretKey, "HOSTS="+p.hosts, "HOST="+host, "WEIR_SOURCES="+p.tree)
}

// startServer starts the servers when all three hosts have their files: they form a cluster.
func (p *production) startServer(host string) {
	p.Helper()
	if p.restarted++; p.restarted < 3 {
		return
	}
	servers := filepath.Join(p.hosts, "servers")
	err := os.MkdirAll(filepath.Join(servers, "servers"), 0o755)
	for i := range 3 {
		name := fmt.Sprintf("n%d", i+1)
		err = errors.Join(err, os.Symlink(filepath.Join(p.root(name), "etc", "nats"), filepath.Join(servers, "servers", name)))
	}
	if err != nil {
		p.Fatal(err)
	}
	p.nats = bustest.ServeInstalled(p.T, servers, natsinit.InstallFolder, natsinit.StoreFolder)
}

// bootMachines boots each instance of the group from the image, and ends it when the group does.
func (p *production) bootMachines(image string) {
	p.Helper()
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	p.Cleanup(func() {
		cancel()
		wg.Wait()
		for _, end := range p.machines {
			end()
		}
	})
	wg.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			p.cloud.Advance(max(0, time.Since(p.cloud.Now())))
			there := map[string]bool{}
			for _, i := range p.cloud.Instances(productionGroup) {
				there[i.ID] = true
				if p.machines[i.ID] == nil {
					p.machines[i.ID] = p.boot(image, i.ID)
				}
			}
			for id, end := range p.machines {
				if !there[id] {
					end()
					delete(p.machines, id)
				}
			}
		}
	})
}

// boot starts the agent of a machine with a copy of the image. The test runs on one machine, so it sets what each has.
func (p *production) boot(image, id string) (end func()) {
	root := p.root(id)
	err := os.CopyFS(root, os.DirFS(p.root(image)))
	path := filepath.Join(root, "etc", "weir", "weir.yaml")
	var text []byte
	if err == nil {
		text, err = os.ReadFile(path)
	}
	if err == nil {
		metadata := instanceMetadata(p.T, id, productionGroup, "prod/web")
		own := fmt.Sprintf("agent: {metadata_endpoint: %q, resources: {cpus: 2, mem: 4096, disk: 10000}, ", metadata)
		err = os.WriteFile(path, []byte(strings.NewReplacer(p.root(image)+"/", root+"/", "agent: {", own).Replace(string(text))), 0o600)
	}
	if err == nil { // CopyFS does not keep the mode
		err = os.Chmod(filepath.Join(root, "etc", "weir", "identity.secrets"), 0o600)
	}
	if err != nil {
		p.Errorf("boot machine %s: %v", id, err)
		return func() {}
	}
	return p.startUnit(id, "weir-agent")
}

// startUnit runs a unit as systemd does: with its credentials and environment, until it is ready, and again when it ends.
// The result ends it.
func (p *production) startUnit(host, unit string) (end func()) {
	file, instance := unit+".service", ""
	if before, after, ok := strings.Cut(unit, "@"); ok {
		file, instance = before+"@.service", after
	}
	text, err := os.ReadFile(filepath.Join(p.root(host), "units", file))
	if err != nil {
		p.Errorf("start unit %s on %s: %v", unit, host, err)
		return func() {}
	}
	credentials := filepath.Join(p.root(host), "run", unit)
	u := &unitProcess{p: p, host: host, unit: unit, ready: make(chan struct{})}
	u.env = append(p.environment(host), "CREDENTIALS_DIRECTORY="+credentials, "WEIR_CONFIG_DIR="+filepath.Join(p.root(host), "etc", "weir"))
	variables := map[string]string{}
	for line := range strings.Lines(strings.NewReplacer("%i", instance, "%N", unit).Replace(string(text))) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "ExecStart":
			u.line = value
		case "EnvironmentFile":
			optional, path := strings.HasPrefix(value, "-"), filepath.Join(p.root(host), strings.TrimPrefix(value, "-"))
			if err := readVariables(path, variables); err != nil && !optional {
				p.Errorf("start unit %s on %s: %v", unit, host, err)
			}
		case "LoadCredential":
			name, path, _ := strings.Cut(value, ":")
			data, err := os.ReadFile(filepath.Join(p.root(host), path))
			if err == nil {
				err = os.MkdirAll(credentials, 0o700)
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(credentials, name), data, 0o400)
			}
			if err != nil && !strings.Contains(string(text), "SetCredential="+name) {
				p.Errorf("start unit %s on %s: %v", unit, host, err)
			}
		}
	}
	for name, value := range variables {
		u.env = append(u.env, name+"="+value)
	}
	for word := range strings.FieldsSeq(u.line) {
		switch name, variable := strings.CutPrefix(word, "$"); {
		case variable:
			u.args = append(u.args, strings.Fields(variables[name])...)
		case strings.HasPrefix(word, "/var/"):
			u.args = append(u.args, filepath.Join(p.root(host), word))
		default:
			u.args = append(u.args, word)
		}
	}
	p.mu.Lock()
	p.units = append(p.units, u)
	p.mu.Unlock()
	return u.start()
}

// logMemory logs the proportional memory (PSS) of each unit with its children, in MB.
func (p *production) logMemory() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range p.units {
		total := 0
		for _, pid := range append(descendants(u.pid()), u.pid()) {
			total += pss(pid)
		}
		p.Logf("memory of %-24s on %-22s %4.1f MB", u.unit, u.host, float64(total)/1024)
	}
}

// pss returns the proportional memory of a process in kB; 0 if it has ended.
func pss(pid int) (kb int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if n, _ := fmt.Sscanf(line, "Pss: %d kB", &kb); n == 1 {
			return kb
		}
	}
	return 0
}

// readVariables reads the lines NAME=VALUE of a file.
func readVariables(path string, into map[string]string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			into[name] = value
		}
	}
	return nil
}

// unitProcess is a running unit.
type unitProcess struct {
	p          *production
	host, unit string
	line       string
	args, env  []string
	ready      chan struct{}
	once       sync.Once
	log        lockedLog
	process    atomic.Int64 // 0: none
}

func (u *unitProcess) pid() int { return int(u.process.Load()) }

// lockedLog is the output of a unit.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(data)
}

func (l *lockedLog) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.text.String()
	return text[max(0, len(text)-6000):]
}

// start returns when the process has reported that it is ready.
func (u *unitProcess) start() (end func()) {
	dir, err := os.MkdirTemp("", "u")
	if err != nil {
		u.p.Errorf("start unit %s: %v", u.unit, err)
		return func() {}
	}
	socket, err := listenNotify(filepath.Join(dir, "s"))
	if err != nil {
		u.p.Errorf("start unit %s: %v", u.unit, err)
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for data := make([]byte, 4096); ; {
			n, err := socket.Read(data)
			if err != nil {
				return
			}
			if slices.Contains(strings.Split(string(data[:n]), "\n"), "READY=1") {
				u.once.Do(func() { close(u.ready) })
			}
		}
	})
	wg.Go(func() {
		again := time.NewTicker(500 * time.Millisecond)
		defer again.Stop()
		for ctx.Err() == nil {
			cmd := exec.CommandContext(ctx, filepath.Join(os.Getenv("WEIR_TEST_BIN"), "weir"), u.args[1:]...)
			cmd.Env, cmd.Stdout, cmd.Stderr = append(u.env, "NOTIFY_SOCKET="+filepath.Join(dir, "s")), &u.log, &u.log
			cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
			cmd.WaitDelay = 20 * time.Second
			err := offspring.Start(cmd)
			if err == nil {
				u.process.Store(int64(cmd.Process.Pid))
				err = cmd.Wait()
			}
			fmt.Fprintf(&u.log, "--- %v\n", err)
			select {
			case <-again.C:
			case <-ctx.Done():
			}
		}
	})
	select {
	case <-u.ready:
	case <-time.After(patience):
		u.p.Errorf("unit %s on %s is not ready within %v:\n%s", u.unit, u.host, patience, u.log.tail())
	}
	return func() {
		cancel()
		_ = socket.Close()
		wg.Wait()
		_ = os.RemoveAll(dir) // a temporary folder
		for line := range strings.Lines(u.log.text.String()) {
			// A reload of a server forgets which requests of other accounts wait for a reply of this connection. They are repeated.
			if late := strings.Contains(line, "the server no longer knows the request of this response"); rejected(line) && !late {
				u.p.Errorf("%s on %s: %s", u.unit, u.host, line)
			}
		}
		if u.p.Failed() {
			u.p.Logf("%s on %s:\n%s", u.unit, u.host, u.log.tail())
		}
	}
}
