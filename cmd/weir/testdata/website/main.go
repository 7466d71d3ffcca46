// Website is an application of tests. It serves HTTP on $PORT, and can crash or stay unready as a bad version does. While
// it runs, the file NAME/INSTANCE of a folder has its port, so that clients find it. The header Server of a response is
// NAME/INSTANCE.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	folder := flag.String("folder", "", "where clients find the port")
	version := flag.String("version", "", "what a response has")
	crash := flag.Duration("crash", 0, "time until it ends with status 1; 0: never")
	unready := flag.Bool("unready", false, "respond with 503")
	flag.Parse()
	if err := serve(*folder, *version, *crash, *unready); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(folder, version string, crash time.Duration, unready bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", os.Getenv("PORT")))
	if err != nil {
		return err
	}
	instance := filepath.Join(os.Getenv("WEIR_APP"), os.Getenv("WEIR_INSTANCE"))
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Server", instance)
		if unready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprint(w, version)
	})}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	announced := filepath.Join(folder, instance)
	if err := announce(announced, listener.Addr().String()); err != nil {
		return err
	}
	var end <-chan time.Time
	if crash > 0 {
		end = time.After(crash)
	}
	select {
	case err := <-failed:
		return err
	case <-end:
		return errors.New("a bad version")
	case <-ctx.Done():
	}
	if err := os.Remove(announced); err != nil {
		return err
	}
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return server.Shutdown(last)
}

// announce writes a file whole.
func announce(path, address string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	whole := filepath.Dir(path) + "." + filepath.Base(path) // not in the folder that clients list
	if err := os.WriteFile(whole, []byte(address), 0o644); err != nil {
		return err
	}
	return os.Rename(whole, path)
}
