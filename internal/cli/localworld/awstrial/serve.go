package awstrial

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/signalbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/s3gateway"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
)

// clockEvery is the interval at which the clock of the server advances to the real time.
const clockEvery = 100 * time.Millisecond

// serve serves a trial until ctx ends.
func serve(ctx context.Context, root *command.Root, path, addr string) error {
	f, err := readFile(path)
	if err != nil {
		return usage.New(err)
	}
	if host, _, err := net.SplitHostPort(addr); err != nil || !net.ParseIP(host).IsLoopback() {
		return usage.New(fmt.Errorf("--addr %s: want an address of loopback, for example 127.0.0.1:4599: the trial does not check signatures", addr))
	}
	quiet := *root
	quiet.LogLevel = "warn" // the starts of agents are no news
	settings, log, err := quiet.Daemon()
	if err != nil {
		return err
	}
	lock, err := daemon.Lock(settings.Data, "aws", "trial of AWS")
	if err != nil {
		return err
	}
	defer lock.Unlock()
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen as AWS: %w; choose another address with --addr", err)
	}
	defer listener.Close()
	orders, err := listenControl(settings.Data)
	if err != nil {
		return err
	}
	defer orders.Close()
	serial, err := firstSerial(settings.Data)
	if err != nil {
		return err
	}
	c := &control{}
	c.server = awsfake.New("http://"+listener.Addr().String(), f.config(time.Now(), serial), c.fail)
	defer c.server.Close()
	f.fill(c.server)
	for _, g := range f.Groups {
		c.owners = append(c.owners, g.Name)
	}
	for _, r := range f.Fleets {
		c.owners = append(c.owners, r.ID)
	}
	var program string
	if f.Agents != nil {
		weir, file, err := command.OpenWeir()
		if err != nil {
			return fmt.Errorf("run agents: %w", err)
		}
		defer file.Close()
		program = weir
	}
	t := trial{program: program, settings: settings, file: f, control: c, log: log}
	parts := daemon.NewServices(ctx)
	bucket, err := t.startBucket(parts)
	if err != nil {
		return parts.Stop(err)
	}
	parts.Run("clock", t.runClock)
	daemon.ServeHTTP(parts, "API of AWS", listener, withBucket(c.server, bucket), log)
	daemon.ServeHTTP(parts, "commands", orders, c, log)
	if f.Agents != nil {
		parts.Run("agents", t.runAgents)
	}
	fmt.Fprintf(root.Stdout, "AWS at http://%s, region %s, queue %s, bucket %s\n", listener.Addr(), f.Region, c.server.QueueURL(), f.Bucket)
	<-parts.Context().Done()
	return parts.Stop(nil)
}

// trial is one run.
type trial struct {
	program  string // weir, for agents
	settings daemon.Settings
	file     file
	control  *control
	log      *slog.Logger
}

// firstSerial returns the number before the first id of this start. Each start in a data folder has ids of its own: the state of the
// server is in memory, and the machines of the start before are not those of this one.
func firstSerial(data string) (int, error) {
	path := filepath.Join(data, "aws-starts")
	text, err := os.ReadFile(path)
	starts := 0
	if err == nil {
		starts, err = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) || starts < 0 || starts > maxStarts {
		return 0, fmt.Errorf("read how often the trial started in this data folder: %s has %.20q; remove the file", path, text)
	}
	return starts << 32, daemon.WriteFile(path, fmt.Appendln(nil, starts+1))
}

// maxStarts bounds the starts of a data folder, so that ids keep their length.
const maxStarts = 1<<16 - 2

// runClock advances the clock of the server with the real time.
func (t trial) runClock(ctx context.Context) error {
	ticker := time.NewTicker(clockEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		t.control.server.Advance(max(0, time.Since(t.control.server.Now())))
	}
}

// startBucket starts the S3 bucket and returns its address. Its keys are in the data folder.
func (t trial) startBucket(parts *daemon.Services) (address *url.URL, err error) {
	keys, _, err := signalbucket.MakeLocalKeys(t.settings.Data)
	if err == nil {
		err = keys.Save(t.settings.Data)
	}
	if err != nil {
		return nil, fmt.Errorf("keys of the bucket: %w", err)
	}
	access := filepath.Join(t.settings.Data, "aws-keys.json")
	if err := daemon.WriteFile(access, fmt.Appendf(nil, `{"accessKeyId": %q, "secretAccessKey": %q}`+"\n", keys.Access, keys.Secret)); err != nil {
		return nil, err
	}
	ready := make(chan string, 1)
	parts.Run("bucket", func(ctx context.Context) error {
		dir := filepath.Join(t.settings.Data, "s3")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		return s3gateway.Run(ctx, s3gateway.Config{
			Dir: dir, Addr: "127.0.0.1:0", AccessKey: keys.Access, SecretKey: keys.Secret, Region: t.file.Region, Buckets: []string{t.file.Bucket}, Log: t.log,
			Ready: func(addr string) { ready <- addr },
		})
	})
	select {
	case addr := <-ready:
		return &url.URL{Scheme: "http", Host: addr}, nil
	case <-parts.Context().Done():
		return nil, context.Cause(parts.Context())
	}
}

// withBucket passes requests that are signed for S3 to the bucket, and the others to the server: AWS has one address for
// all services here.
func withBucket(server http.Handler, bucket *url.URL) http.Handler {
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(bucket)
		r.Out.Host = r.In.Host // the signature includes it
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Authorization"), "/s3/aws4_request") {
			proxy.ServeHTTP(w, r)
			return
		}
		server.ServeHTTP(w, r)
	})
}
