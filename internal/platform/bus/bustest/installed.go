package bustest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Installed is three NATS servers with the files that "weir nats init" has written.
type Installed struct {
	URLs []string

	servers map[string]*server.Server
	mu      sync.Mutex
	lines   []string
}

// ServeInstalled runs the servers of a folder of "weir nats init" in this process until the test ends. Their names are
// n1, n2 and n3, their hosts 127.0.0.1, 127.0.0.2 and 127.0.0.3. It changes their files: each server has free ports, and
// its keys and streams are below the folder. installFolder and storeFolder are the paths in the files. When it returns, a
// stream with three replicas can be created.
func ServeInstalled(tb testing.TB, folder, installFolder, storeFolder string) *Installed {
	tb.Helper()
	in := &Installed{servers: map[string]*server.Server{}}
	tb.Cleanup(func() {
		if tb.Failed() {
			in.mu.Lock()
			defer in.mu.Unlock()
			tb.Logf("logs of the servers:\n%s", strings.Join(in.lines, "\n"))
		}
	})
	ports := Ports(tb, 2*servers)
	var running []*server.Server
	for i := range servers {
		name := fmt.Sprintf("n%d", i+1)
		own := filepath.Join(folder, "servers", name)
		path := filepath.Join(own, "nats.conf")
		text, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		changes := []string{
			installFolder, own, storeFolder, filepath.Join(own, "store"),
			`"0.0.0.0:4222"`, fmt.Sprintf(`"127.0.0.%d:%d"`, i+1, ports[2*i]),
			`"0.0.0.0:6222"`, fmt.Sprintf(`"127.0.0.%d:%d"`, i+1, ports[2*i+1]),
		}
		for peer := range servers {
			changes = append(changes, fmt.Sprintf("127.0.0.%d:6222", peer+1), fmt.Sprintf("127.0.0.%d:%d", peer+1, ports[2*peer+1]))
		}
		if err := os.WriteFile(path, []byte(bounded(strings.NewReplacer(changes...).Replace(string(text)))), 0o600); err != nil {
			tb.Fatal(err)
		}
		options, err := server.ProcessConfigFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		options.NoSigs, options.NoLog = true, true
		s, err := server.NewServer(options)
		if err != nil {
			tb.Fatal(err)
		}
		s.SetLoggerV2(&lineLog{in: in, server: name}, false, false, false)
		running = append(running, s)
		in.servers[name] = s
		in.URLs = append(in.URLs, fmt.Sprintf("tls://127.0.0.%d:%d", i+1, ports[2*i]))
	}
	runServers(tb, running)
	return in
}

// Reload makes a server read its files again, when no client subscribes: nats-server 2.15.3 and earlier may crash otherwise, because
// its accounts have no list of subjects for a moment.
func (in *Installed) Reload(tb testing.TB, name string) {
	tb.Helper()
	in.settle()
	if err := in.servers[name].Reload(); err != nil {
		tb.Fatalf("reload server %s: %v", name, err)
	}
}

// settle waits until the servers have as many subscriptions for half a second, at most ten seconds.
func (in *Installed) settle() {
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	last, same := uint32(0), 0
	for polls := 0; polls < 200 && same < 10; polls++ {
		<-again.C
		sum := uint32(0)
		for _, s := range in.servers {
			sum += s.NumSubscriptions()
		}
		if same++; sum != last {
			last, same = sum, 0
		}
	}
}

// Violations returns the lines of the servers' logs about permissions and authentication.
func (in *Installed) Violations() (found []string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, line := range in.lines {
		if strings.Contains(line, "Violation") || strings.Contains(line, "authentication error") {
			found = append(found, line)
		}
	}
	return found
}

// lineLog keeps the lines of a server that are more than notices.
type lineLog struct {
	in     *Installed
	server string
}

func (l *lineLog) addLine(format string, v []any) {
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	l.in.lines = append(l.in.lines, l.server+": "+fmt.Sprintf(format, v...))
}

func (l *lineLog) Noticef(string, ...any)         {}
func (l *lineLog) Debugf(string, ...any)          {}
func (l *lineLog) Tracef(string, ...any)          {}
func (l *lineLog) Warnf(format string, v ...any)  { l.addLine(format, v) }
func (l *lineLog) Errorf(format string, v ...any) { l.addLine(format, v) }
func (l *lineLog) Fatalf(format string, v ...any) { l.addLine(format, v) }
