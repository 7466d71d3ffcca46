package s3gateway

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

const deadline = await.Patience

func testConfig(dir string) Config {
	return Config{
		Dir: dir, Addr: "127.0.0.1:0", AccessKey: "key", SecretKey: "secret",
		Buckets: []string{"releases", "other"}, Log: slog.New(slog.DiscardHandler), Ready: func(string) {},
	}
}

// start runs a gateway. It returns its endpoint and a function that stops it.
func start(t *testing.T, cfg Config, probe func(string) error) (endpoint string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan string, 1), make(chan error, 1)
	cfg.Ready = func(addr string) { ready <- addr }
	began := time.Now()
	go func() { ended <- run(ctx, cfg, probe) }()
	select {
	case addr := <-ready:
		t.Logf("ready after %v", time.Since(began))
		endpoint = "http://" + addr
	case err := <-ended:
		t.Fatalf("Run ended before it was ready: %v", err)
	case <-time.After(deadline):
		t.Fatal("Run is not ready")
	}
	return endpoint, func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(deadline):
			return errors.New("Run does not end")
		}
	}
}

func client(endpoint, region, secret string) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: &endpoint, UsePathStyle: true, Region: cmp.Or(region, "us-east-1"), RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("key", secret, ""),
	})
}

func put(ctx context.Context, c *s3.Client, key, body string) error {
	_, err := c.PutObject(ctx, &s3.PutObjectInput{
		Bucket: aws.String("releases"), Key: &key, IfNoneMatch: aws.String("*"), Body: bytes.NewReader([]byte(body)),
	})
	return err
}

func get(ctx context.Context, c *s3.Client, key string) (string, error) {
	out, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("releases"), Key: &key})
	if err != nil {
		return "", err
	}
	defer out.Body.Close()
	body, err := io.ReadAll(out.Body)
	return string(body), err
}

func code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

func TestRun(t *testing.T) {
	noXattr := func(string) error { return errors.New("not supported") }
	for _, tc := range []struct {
		name, region string
		probe        func(string) error
	}{{"extended attributes", "", probeXattr}, {"metadata beside", "", noXattr}, {"another region", "eu-west-1", probeXattr}} {
		t.Run(tc.name, func(t *testing.T) {
			cfg, ctx := testConfig(t.TempDir()), t.Context()
			cfg.Region = tc.region
			wd, _ := os.Getwd()
			endpoint, stop := start(t, cfg, tc.probe)
			if err := put(ctx, client(endpoint, tc.region, "secret"), "a/b", "one"); err != nil {
				t.Fatal(err)
			}
			if err := put(ctx, client(endpoint, tc.region, "secret"), "a/b", "two"); code(err) != "PreconditionFailed" {
				t.Errorf("second put: %v, want PreconditionFailed", err)
			}
			if err := put(ctx, client(endpoint, tc.region, "wrong"), "a/c", "x"); code(err) != "SignatureDoesNotMatch" {
				t.Errorf("put with a wrong secret: %v, want SignatureDoesNotMatch", err)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if now, _ := os.Getwd(); now != wd {
				t.Errorf("working directory after Run is %s, want %s", now, wd)
			}

			// With the same folder, buckets and objects are still there.
			endpoint, stop = start(t, cfg, tc.probe)
			if got, err := get(ctx, client(endpoint, tc.region, "secret"), "a/b"); got != "one" || err != nil {
				t.Errorf("get after a restart = %q, %v, want one", got, err)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestRunOnlyOnce(t *testing.T) {
	_, stop := start(t, testConfig(t.TempDir()), probeXattr)
	if err := Run(t.Context(), testConfig(t.TempDir())); !errors.Is(err, errRunning) {
		t.Errorf("second Run = %v, want ErrRunning", err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestRunStopsWithOpenConnections(t *testing.T) {
	endpoint, stop := start(t, testConfig(t.TempDir()), probeXattr)
	for _, say := range []string{"", "PUT /releases/x HTTP/1.1\r\nContent-Length: 100\r\n\r\nabc"} {
		conn, err := net.Dial("tcp", endpoint[len("http://"):])
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, say); err != nil {
			t.Fatal(err)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestRunEndsAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ctx, testConfig(t.TempDir())); err != nil {
		t.Errorf("Run of an ended context = %v, want nil", err)
	}
}

func TestRunRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, tc := range []struct {
		name   string
		change func(*Config)
	}{
		{"no secret", func(c *Config) { c.SecretKey = "" }},
		{"no log", func(c *Config) { c.Log = nil }},
		{"address in use", func(c *Config) { c.Addr = taken.Addr().String() }},
		{"bucket with a path", func(c *Config) { c.Buckets = []string{"../x"} }},
		{"folder is a file", func(c *Config) { c.Dir = os.Args[0] }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := testConfig(t.TempDir())
			tc.change(&cfg)
			if err := Run(t.Context(), cfg); err == nil {
				t.Error("Run = nil, want an error")
			} else {
				t.Log(err)
			}
		})
	}
}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// Both belong to fasthttp: one ends within 10 s after a server, the other lives as long as the process.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
	)
}
