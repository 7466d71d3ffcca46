package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
)

// muteServer accepts connections on loopback until the test ends, and hands each one to serve.
func muteServer(t *testing.T, serve func(net.Conn)) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	wg.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			wg.Go(func() { serve(c) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return "nats://" + listener.Addr().String()
}

// silent reads, and writes nothing.
func silent(c net.Conn) {
	defer c.Close()
	for buf := make([]byte, 4096); ; {
		if _, err := c.Read(buf); err != nil {
			return
		}
	}
}

// pingOnly is a NATS server that takes everything, and answers nothing but pings.
func pingOnly(c net.Conn) {
	defer c.Close()
	fmt.Fprint(c, `INFO {"server_id":"mute","version":"2.15.0","headers":true,"max_payload":1048576,"proto":1}`+"\r\n")
	lines := bufio.NewReader(c)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		if strings.TrimSpace(line) == "PING" {
			if _, err := fmt.Fprint(c, "PONG\r\n"); err != nil {
				return
			}
		}
	}
}

// shortForms are the commands of "weir pool" that have a short form.
func shortForms() []string {
	return []string{"status", "explain", "plan", "diff", "cost", "pause", "resume", "offset"}
}

// busCommands are the commands that read the bus, with what they need to come to that.
func busCommands() map[string][]string {
	all := map[string][]string{
		"status": nil, "explain": nil, "plan": nil, "diff": {"last", "last"}, "cost": nil, "events": {"--since", "1h"}, "pause": {"--why", "x", "--for", "1h"}, "resume": nil, "offset": {"2"},
		"pool target": {"3"}, "pool mark-stale": {"g"}, "pool groups": nil, "pool list": nil, "pool accept": nil, "pool roll": {"--dry-run"}, "pool rotate": {"--status"}, "signal where": {"shop/none"},
		"pool decide": {"--set", "scaling_limits.max_capacity=40", "--since", "1h"}, "simulate init": {"/proc/none.yaml"},
		"app set": {"web", "--command", "true"}, "app get": {"web"}, "app list": nil, "app delete": {"web"}, "app status": nil,
		"app explain": {"web"}, "app crashes": {"web"}, "app retry": {"web"}, "app logs": {"web"}, "app history": {"web"},
		"app apply": {"-f", "testdata/apps.yaml"}, "app diff": {"-f", "testdata/apps.yaml"},
		"app restart": {"web"}, "app rollback": {"web"}, "app scale": {"web", "2"}, "app start": {"web"}, "app stop": {"web"},
		"doctor": nil, "state check": nil, "state accept": {"apps", "--reason", "x"}, "state aside": {"state", "--reason", "x"},
		"state backup": {"none.tar", "--cluster", "none"}, "state restore": {"testdata/backup.tar", "--cluster", "other"},
		"signal ps": nil, "signal restart": {"web"}, "signal logs": {"web"}, "signal shadow": nil, "signal try": {"forecast", "--app", "web", "--metric", "none"},
		"metrics put": {"--app", "web", "a=1"}, "metrics get": {"--app", "web", "a"}, "metrics try": nil,
		"metrics import":     {"testdata/metrics.lp"},
		"harmonizer release": nil,
		"nats streams":       {"--pool", "default"},
		"node status":        nil, "node history": nil, "node check": nil, "node recover": {"n1"}, "node pause": {"n1"},
		"node resume": {"n1"}, "node release": {"n1"}, "node evidence": {"n1"},
		"node list": nil, "pool drain": {"n1"}, "release forget": {"shop/rps@v1"},
	}
	for _, path := range shortForms() {
		all["pool "+path] = all[path]
	}
	return all
}

// otherCommands read no bus, or go on until they are ended: those wait for the bus as long as it
// takes.
func otherCommands() []string {
	return []string{
		"up", "decide", "simulate", "prices", "calendar", "bootstrap", "autoscaler", "agent", "auth", "placer", "notify", "web", "keep", "version", "config validate", "config show", "config schema", "metrics serve", "harmonizer replay", "harmonizer record",
		"nats init", "context list", "context use", "context show",
		"node replay", "node policy check", "signal init", "signal test", "signal bench", "signal run", "release keygen",
		"release publish", "release list", "release show", "release verify", "release fetch", "release yank",
	}
}

// muteConfig returns the folder of a configuration, for commands that read it before the bus.
func muteConfig(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"weir.yaml": "aws: {region: eu-central-1, signals_bucket: releases}\n",
		"local/default.yaml": "resource_groups: [{local: {name: g, min: 1, max: 2, machine: {cpus: 1, mem: 256, disk: 100}}}]\n" +
			"scaling_limits: {min_capacity: 1, max_capacity: 2, max_weight_to_add: 2, max_weight_to_remove: 2, max_tasks_to_kill: inf}\n" +
			"autoscaling: {setpoint: 0.5}\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestEveryCommandEndsWhenTheBusIsMute has each command that reads the bus meet a server that
// accepts the connection and answers nothing. It ends soon, with an error or a warning that names
// what did not answer.
func TestEveryCommandEndsWhenTheBusIsMute(t *testing.T) {
	t.Parallel()
	for server, serve := range map[string]func(net.Conn){"silent": silent, "pings only": pingOnly} {
		url := muteServer(t, serve)
		for path, args := range busCommands() {
			t.Run(server+"/"+path, func(t *testing.T) {
				t.Parallel()
				line := slices.Concat(strings.Fields(path), args,
					[]string{"--nats", url, "--timeout", "500ms", "--data", t.TempDir(), "--config-dir", muteConfig(t)})
				ended := make(chan result, 1)
				go func() { ended <- weir(line...) }()
				select {
				case r := <-ended:
					if text := r.stdout + r.stderr; !strings.Contains(text, "deadline exceeded") && !strings.Contains(text, "timeout") &&
						!strings.Contains(text, "no answer") || r.code == command.ExitOK && path != "status" && path != "pool status" {
						t.Errorf("weir %s ended with %d and printed %s%s, want what did not answer", path, r.code, r.stdout, r.stderr)
					}
				case <-time.After(patience):
					t.Errorf("weir %s waits for a mute bus without end", path)
				}
			})
		}
	}
}

// TestEveryCommandIsInTheTable compares the table with the command line.
func TestEveryCommandIsInTheTable(t *testing.T) {
	known := otherCommands()
	for path := range busCommands() {
		known = append(known, path)
	}
	var leaves []string
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			walk(c)
		}
		if path := strings.TrimPrefix(cmd.CommandPath(), "weir "); (!cmd.HasSubCommands() || strings.Contains(cmd.Use, " ")) && cmd.Name() != "help" && cmd.Parent().Name() != "completion" {
			leaves = append(leaves, path)
		}
	}
	walk(commandTree())
	slices.Sort(known)
	slices.Sort(leaves)
	if !slices.Equal(known, leaves) {
		for _, path := range leaves {
			if !slices.Contains(known, path) {
				t.Errorf("weir %s is missing in the table: does it read the bus?", path)
			}
		}
		for _, path := range known {
			if !slices.Contains(leaves, path) {
				t.Errorf("weir %s is no command", path)
			}
		}
	}
}
