// Broken is a signal with one mistake, which its first argument names; "none" means no mistake. Each mistake occurred
// in a real signal, and one check detects it.
//
//	broken MISTAKE NAMESPACE NAME APP
//
// It uses plain sockets: a library would prevent these mistakes.
package main

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// mistakes are the arguments.
var mistakes = []string{
	"none",
	"listens_elsewhere", "starts_slowly", "hello_wants_newline", "pid_file", "ignores_sigterm", "sigterm_is_an_error",
	"name_ends_with_nul", "wrong_ack", "little_endian",
	"no_usage", "prints", "app_without_suffix",
	"hello_drops_rest", "hello_reads_once", "hello_counts_braces", "hello_decodes_reads", "impatient", "reads_once", "needs_metrics", "needs_points", "small_buffer", "strict_keys", "short_numbers", "one_at_a_time",
	"negative", "no_resources", "verdict_number", "verdict_other", "stale_with_value", "explanation_list", "long_answer", "two_writes", "one_evaluation", "says_goodbye", "counts",
	"takes_nan", "takes_utf16", "takes_mark", "takes_null_metrics", "needs_no_timestamp", "hangs_up_on_garbage", "takes_any_length", "dies_on_eof", "dies_on_epipe",
	"prints_as_plugin", "any_version", "hangs_on_other_version",
}

type program struct {
	mistake string
	asked   atomic.Int64 // number of evaluations
}

// is reports whether the program makes this mistake.
func (p *program) is(mistake string) bool {
	if !slices.Contains(mistakes, mistake) {
		panic("no such mistake: " + mistake)
	}
	return p.mistake == mistake
}

func main() {
	if len(os.Args) < 2 || !slices.Contains(mistakes, os.Args[1]) {
		fmt.Fprintln(os.Stderr, "the first argument is one of", mistakes)
		os.Exit(64)
	}
	p := &program{mistake: os.Args[1]}
	words := os.Args[2:]
	if len(words) != 3 {
		if p.is("no_usage") {
			fmt.Fprintln(os.Stderr, "list index out of range")
			os.Exit(1)
		}
		fmt.Fprintln(os.Stderr, "usage: broken MISTAKE NAMESPACE NAME APP")
		os.Exit(2)
	}
	if err := p.run(words); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (p *program) run(words []string) error {
	terms := make(chan os.Signal, 1)
	signal.Notify(terms, syscall.SIGTERM)
	p.plugin()
	if p.is("prints") {
		fmt.Println("listening")
	}
	if p.is("starts_slowly") {
		<-time.After(500 * time.Millisecond)
	}
	if p.is("pid_file") {
		file := filepath.Join(os.TempDir(), strings.Join(words, "-")+".pid")
		if _, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			return fmt.Errorf("is another one running? %w", err)
		}
	}
	listener, err := net.Listen("unix", p.address(words))
	if err != nil {
		return err
	}
	go p.accept(listener)
	for range terms {
		switch {
		case p.is("ignores_sigterm"):
		case p.is("sigterm_is_an_error"):
			os.Exit(143)
		default:
			os.Exit(0)
		}
	}
	return nil
}

// plugin makes the mistakes of plugins.
func (p *program) plugin() {
	if os.Getenv("WEIR_SIGNAL_PLUGIN") == "" {
		return
	}
	version := os.Getenv("PLUGIN_PROTOCOL_VERSIONS")
	switch {
	case p.is("prints_as_plugin"):
		fmt.Println("hello from the plugin")
	case p.is("any_version"):
		fmt.Printf("1|%s|unix|/nowhere|grpc|\n", version)
	case p.is("hangs_on_other_version") && version != "1":
		select {}
	}
}

func (p *program) address(words []string) string {
	namespace, name, app := words[0], words[1], words[2]
	if p.is("listens_elsewhere") {
		namespace, name = name, namespace
	}
	if p.is("app_without_suffix") {
		app, _, _ = strings.Cut(app, "~")
	}
	address := "@" + namespace + "-" + name + "-" + app + "-socket"
	if p.is("name_ends_with_nul") {
		address += "\x00"
	}
	return address
}

func (p *program) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if p.is("one_at_a_time") {
			p.serve(conn)
		} else {
			go p.serve(conn)
		}
	}
}
