package s3store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/platform/awssdk"
	"github.com/weirkeeper/weirkeeper/internal/platform/s3gateway/s3test"
)

func TestMain(m *testing.M) {
	s3test.RunIfChild()
	os.Exit(m.Run())
}

func open(t *testing.T, cfg Config) *Bucket {
	t.Helper()
	b, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func put(ctx context.Context, b *Bucket, key, content string) error {
	return b.Put(ctx, key, strings.NewReader(content), int64(len(content)))
}

func get(ctx context.Context, b *Bucket, key string, from int64) (string, error) {
	body, err := b.Get(ctx, key, from)
	if err != nil {
		return "", err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	return string(data), err
}

func TestBucket(t *testing.T) {
	server := s3test.Start(t, "releases")
	ctx := t.Context()
	b := open(t, Config{Bucket: "releases", Prefix: "pre/fix", Endpoint: server.Endpoint, PathStyle: true})
	if err := put(ctx, b, "a/b+c%2F d", "0123456789"); err != nil {
		t.Fatal(err)
	}
	if err := put(ctx, b, "a/b+c%2F d", "other"); !errors.Is(err, release.ErrExists) {
		t.Errorf("second Put = %v, want ErrExists", err)
	}
	for _, tc := range []struct {
		name, key string
		from      int64
		content   string
		want      error
	}{
		{"whole", "a/b+c%2F d", 0, "0123456789", nil},
		{"from the middle", "a/b+c%2F d", 7, "789", nil},
		{"from the end", "a/b+c%2F d", 10, "", release.ErrCorrupt},
		{"not there", "a/c", 0, "", release.ErrNotFound},
		{"a folder", "a", 0, "", release.ErrNotFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			content, err := get(ctx, b, tc.key, tc.from)
			if content != tc.content || !errors.Is(err, tc.want) {
				t.Errorf("Get = %q, %v, want %q, %v", content, err, tc.content, tc.want)
			}
			if url := "s3://releases/pre/fix/" + tc.key; err != nil && !strings.Contains(err.Error(), url) {
				t.Errorf("Get = %v, want it to name %s", err, url)
			}
		})
	}
	t.Run("flipped byte", func(t *testing.T) {
		path := server.Path("releases", "pre/fix/a/b+c%2F d")
		if err := os.WriteFile(path, []byte("x123456789"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := get(ctx, b, "a/b+c%2F d", 0); !errors.Is(err, release.ErrCorrupt) {
			t.Errorf("Get = %v, want ErrCorrupt by the store's checksum", err)
		}
	})
}

func TestStat(t *testing.T) {
	server := s3test.Start(t, "releases")
	ctx := t.Context()
	b := open(t, Config{Bucket: "releases", Prefix: "p", Endpoint: server.Endpoint, PathStyle: true})
	for _, key := range []string{"a", "b"} {
		if err := put(ctx, b, key, "content of "+key); err != nil {
			t.Fatal(err)
		}
	}
	first, err := b.Stat(ctx, "a")
	if err != nil || first.Size != int64(len("content of a")) || first.Tag == "" {
		t.Errorf("Stat = %+v, %v", first, err)
	}
	if other, err := b.Stat(ctx, "b"); err != nil || other.Tag == first.Tag {
		t.Errorf("Stat of other content = %+v, %v, want another tag than %s", other, err, first.Tag)
	}
	if _, err := b.Stat(ctx, "zzz"); !errors.Is(err, release.ErrNotFound) || !strings.Contains(err.Error(), "s3://releases/p/zzz") {
		t.Errorf("Stat of nothing = %v, want ErrNotFound", err)
	}
	server.Kill()
	if _, err := b.Stat(ctx, "a"); !errors.Is(err, release.ErrUnavailable) {
		t.Errorf("Stat of a store that is away = %v, want ErrUnavailable", err)
	}
}

func TestList(t *testing.T) {
	server := s3test.Start(t, "releases")
	ctx := t.Context()
	b := open(t, Config{Bucket: "releases", Prefix: "p", Endpoint: server.Endpoint, PathStyle: true})
	b.pageSize = 3
	outside := open(t, Config{Bucket: "releases", Endpoint: server.Endpoint, PathStyle: true})
	if err := put(ctx, outside, "q/x", "x"); err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 8 {
		k := fmt.Sprintf("a/k%d", i)
		if err := put(ctx, b, k, "x"); err != nil {
			t.Fatal(err)
		}
		want = append(want, k)
	}
	if err := put(ctx, b, "b/x", "x"); err != nil {
		t.Fatal(err)
	}
	var got []string
	for k, err := range b.List(ctx, "a/") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, k)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("List (-want +got):\n%s", d)
	}
	for range b.List(ctx, "") {
		break // must not panic
	}
	nowhere := open(t, Config{Bucket: "nowhere", Endpoint: server.Endpoint, PathStyle: true})
	for _, err := range nowhere.List(ctx, "") {
		if !errors.Is(err, release.ErrNoBucket) {
			t.Errorf("List of no bucket = %v, want ErrNoBucket", err)
		}
	}
}

func TestUnavailable(t *testing.T) {
	s3test.Start(t) // for the credentials
	broken := serveBytes(t, "HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n")
	cut := serveBytes(t, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
	noise := serveBytes(t, "?\r\n\r\n")
	silent := serveBytes(t, "")
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	const ample = time.Minute
	for _, tc := range []struct {
		name, endpoint, wantText string
		limit                    time.Duration
	}{
		{"no listener", "http://" + free.Addr().String(), "connection refused", ample},
		{"answers 503", broken, "", ample},
		{"cuts the body", cut, "", ample},
		{"hangs up", noise, "", ample},
		{"never answers", silent, "deadline", 300 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), tc.limit)
			defer cancel()
			b := open(t, Config{Bucket: "releases", Endpoint: tc.endpoint, PathStyle: true})
			_, err := get(ctx, b, "k", 0)
			if !errors.Is(err, release.ErrUnavailable) || !strings.Contains(err.Error(), tc.wantText) || !strings.HasSuffix(err.Error(), " (s3://releases/k)") {
				t.Errorf("Get = %v, want ErrUnavailable with %q", err, tc.wantText)
			}
			t.Log(err)
		})
	}
}

// serveBytes sends these bytes on every connection and closes it. Without bytes it keeps the connection open.
func serveBytes(t *testing.T, answer string) (endpoint string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var conns []net.Conn
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns = append(conns, c)
			if answer == "" {
				continue
			}
			c.Read(make([]byte, 4096))
			io.WriteString(c, answer)
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
		for _, c := range conns {
			c.Close()
		}
	})
	return "http://" + l.Addr().String()
}

// withoutCredentials disables all sources of credentials except these variables.
func withoutCredentials(t *testing.T, variables map[string]string) {
	t.Helper()
	nothing := filepath.Join(t.TempDir(), "nothing")
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", nothing)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", nothing)
	for name, value := range variables {
		t.Setenv(name, value)
	}
}

// Missing credentials are ErrDenied. If their source is unavailable, the error is ErrUnavailable.
func TestCredentials(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	answer := func(status, body string) string {
		return serveBytes(t, fmt.Sprintf("HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, len(body), body))
	}
	refused := func(code string) string {
		return "<ErrorResponse><Error><Code>" + code + "</Code><Message>because</Message></Error></ErrorResponse>"
	}
	identity := func(sts string) map[string]string {
		return map[string]string{
			"AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/x", "AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ENDPOINT_URL_STS": sts,
		}
	}
	instance := func(endpoint string) map[string]string {
		return map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": endpoint}
	}
	container := func(endpoint string) map[string]string {
		return map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": endpoint}
	}
	noToken := identity("http://127.0.0.1:1")
	noToken["AWS_WEB_IDENTITY_TOKEN_FILE"] = token + "-not"
	for _, tc := range []struct {
		name      string
		variables map[string]string
		want      error
	}{
		{"sts refuses connections", identity("http://127.0.0.1:1"), release.ErrUnavailable},
		{"sts answers 503", identity(answer("503 Service Unavailable", refused("ServiceUnavailable"))), release.ErrUnavailable},
		{"sts answers 503 and no body", identity(answer("503 Service Unavailable", "")), release.ErrUnavailable},
		{"sts throttles", identity(answer("400 Bad Request", refused("Throttling"))), release.ErrUnavailable},
		{"sts cannot ask the identity provider", identity(answer("400 Bad Request", refused("IDPCommunicationError"))), release.ErrUnavailable},
		{"sts hangs up", identity(serveBytes(t, "?\r\n\r\n")), release.ErrUnavailable},
		{"sts denies", identity(answer("403 Forbidden", refused("AccessDenied"))), release.ErrDenied},
		{"sts denies without a word", identity(answer("403 Forbidden", "")), release.ErrDenied},
		{"sts knows no such token", identity(answer("400 Bad Request", refused("InvalidIdentityToken"))), release.ErrDenied},
		{"no token", noToken, release.ErrDenied},
		{"instance answers 500", instance(answer("500 Internal Server Error", "")), release.ErrUnavailable},
		{"instance without a role", instance(answer("404 Not Found", "")), release.ErrDenied},
		{"instances are not asked", map[string]string{"AWS_EC2_METADATA_DISABLED": "true"}, release.ErrDenied},
		{"container answers 429", container(answer("429 Too Many Requests", "wait")), release.ErrUnavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			withoutCredentials(t, tc.variables)
			b := open(t, Config{Bucket: "releases", Region: "us-east-1", Endpoint: "http://127.0.0.1:1", PathStyle: true})
			_, err := get(t.Context(), b, "k", 0)
			for _, class := range []error{release.ErrUnavailable, release.ErrDenied} {
				if errors.Is(err, class) != (class == tc.want) {
					t.Errorf("Get = %v, want %v", err, tc.want)
				}
			}
			if err == nil || !strings.Contains(err.Error(), "no credentials") {
				t.Errorf("Get = %v, want it to name the credentials", err)
			}
			t.Log(err)
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		withoutCredentials(t, identity(serveBytes(t, "")))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		b := open(t, Config{Bucket: "releases", Region: "us-east-1", Endpoint: "http://127.0.0.1:1", PathStyle: true})
		if _, err := get(ctx, b, "k", 0); errors.Is(err, release.ErrDenied) || !errors.Is(err, context.Canceled) {
			t.Errorf("Get = %v, want that it was cancelled", err)
		}
	})
}

// Without credentials the chain requests those of an instance last. A silent instance service must not block the call;
// it may respond later.
func TestSilentInstance(t *testing.T) {
	withoutCredentials(t, map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": serveBytes(t, "")})
	b := open(t, Config{Bucket: "releases", Endpoint: "http://127.0.0.1:1", PathStyle: true})
	began := time.Now()
	_, err := get(t.Context(), b, "k", 0)
	if !errors.Is(err, release.ErrUnavailable) || !strings.Contains(err.Error(), "no credentials") {
		t.Errorf("Get = %v, want ErrUnavailable for want of credentials", err)
	}
	if took := time.Since(began); took > 2*awssdk.CredentialsTimeout {
		t.Errorf("Get took %v, want about %v", took, awssdk.CredentialsTimeout)
	}
	t.Log(err)
}

func TestClassify(t *testing.T) {
	answer := func(status int, code string) error {
		return &awshttp.ResponseError{ResponseError: &smithyhttp.ResponseError{
			Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}},
			Err:      &smithy.GenericAPIError{Code: code, Message: "because"},
		}}
	}
	for _, tc := range []struct {
		name string
		err  error
		want error
	}{
		{"conflict of two writers", answer(409, "ConditionalRequestConflict"), release.ErrUnavailable},
		{"slow request", answer(400, "RequestTimeout"), release.ErrUnavailable},
		{"expired token", answer(400, "ExpiredToken"), release.ErrDenied},
		{"forbidden", answer(403, "AccessDenied"), release.ErrDenied},
		{"server error", answer(500, "InternalError"), release.ErrUnavailable},
		{"throttled", answer(429, "Throttling"), release.ErrUnavailable},
		{"exists", answer(412, "PreconditionFailed"), release.ErrExists},
		{"no such bucket", answer(404, "NoSuchBucket"), release.ErrNoBucket},
		{"bare 404", answer(404, ""), release.ErrNotFound},
		{"bad request", answer(400, "InvalidArgument"), nil},
		{"cancelled", fmt.Errorf("x: %w", context.Canceled), nil},
		{"name not found", &net.DNSError{Err: "no such host", Name: "x"}, release.ErrUnavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if cause, got := classify(tc.err); got != tc.want || cause == "" {
				t.Errorf("classify(%v) = %v, %q, want %v", tc.err, got, cause, tc.want)
			}
		})
	}
}

// The texts of S3 do not name the cause of these errors.
func TestErrorsNameTheRemedy(t *testing.T) {
	s3test.Start(t) // for the credentials
	answer := func(status, header, code string) string {
		body := ""
		if code != "" {
			body = "<Error><Code>" + code + "</Code><Message>because</Message></Error>"
		}
		return serveBytes(t, fmt.Sprintf("HTTP/1.1 %s\r\n%sContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, header, len(body), body))
	}
	const region = "X-Amz-Bucket-Region: eu-west-1\r\n"
	for _, tc := range []struct {
		name, endpoint string
		class          error
		get, head, put string // parts of the errors; "-": the error has no remedy
	}{
		{"missing object without ListBucket", answer("403 Forbidden", "", "AccessDenied"), release.ErrDenied, "s3:ListBucket", "s3:ListBucket", "-"},
		{"the same without a body", answer("403 Forbidden", "", ""), release.ErrDenied, "s3:ListBucket", "s3:ListBucket", "-"},
		{"other keys", answer("403 Forbidden", "", "InvalidAccessKeyId"), release.ErrDenied, "-", "s3:ListBucket", "-"},
		{"clock", answer("403 Forbidden", "Date: Sat, 28 Nov 2026 07:45:04 GMT\r\n", "RequestTimeTooSkewed"), release.ErrUnavailable,
			"clock of this host differs from that of AWS, which shows 2026-11-28T07:45:04Z", "", "clock of this host"},
		{"other region", answer("301 Moved Permanently", region, "PermanentRedirect"), nil, `region "eu-west-1": set aws.region`, `region "eu-west-1": set aws.region`, `region "eu-west-1": set aws.region`},
		{"other region without a body", answer("301 Moved Permanently", region, ""), nil, `region "eu-west-1"`, `region "eu-west-1"`, `region "eu-west-1"`},
		{"signed for another region", answer("400 Bad Request", region, "AuthorizationHeaderMalformed"), nil, `region "eu-west-1"`, `region "eu-west-1"`, `region "eu-west-1"`},
		{"unknown other region", answer("301 Moved Permanently", "", "PermanentRedirect"), nil, "another region", "another region", "another region"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := open(t, Config{Bucket: "releases", Endpoint: tc.endpoint, PathStyle: true})
			_, gotten := get(t.Context(), b, "k", 0)
			_, stat := b.Stat(t.Context(), "k")
			for i, err := range []error{gotten, stat, put(t.Context(), b, "k", "x")} {
				part := []string{tc.get, tc.head, tc.put}[i]
				if part == "-" && strings.Contains(err.Error(), "; ") || part != "-" && !strings.Contains(err.Error(), part) {
					t.Errorf("error %d: %v, want %q", i, err, part)
				}
				if i == 0 && tc.class != nil && !errors.Is(err, tc.class) {
					t.Errorf("Get = %v, want %v", err, tc.class)
				}
			}
			t.Log(gotten)
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "nothing"))
	for _, tc := range []struct {
		name string
		cfg  Config
	}{
		{"no bucket", Config{Region: "r"}},
		{"bucket with a path", Config{Region: "r", Bucket: "a/b"}},
		{"prefix with a slash", Config{Region: "r", Bucket: "a", Prefix: "x/"}},
		{"endpoint without a scheme", Config{Region: "r", Bucket: "a", Endpoint: "localhost:9000"}},
		{"no region", Config{Bucket: "a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := Open(t.Context(), tc.cfg); err == nil {
				t.Error("Open = nil, want an error")
			}
		})
	}
}
