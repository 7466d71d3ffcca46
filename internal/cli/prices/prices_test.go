package prices

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
)

// call is a call of the SDK, and how AWS answers it.
type call struct {
	name, in          string // in: a part of each error
	is                func(r *http.Request, body string) bool
	denied, throttled string // answers with status 400
	endless           string // a page that names itself as the next one
}

var calls = []call{
	{
		"GetProducts", "price list", func(r *http.Request, _ string) bool {
			return strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".GetProducts")
		},
		`{"__type":"AccessDeniedException","Message":"no"}`, `{"__type":"ThrottlingException","Message":"no"}`, `{"PriceList":["{}"],"NextToken":"again"}`,
	},
	{
		"DescribeSpotPriceHistory", "spot", func(_ *http.Request, body string) bool {
			return strings.Contains(body, "Action=DescribeSpotPriceHistory")
		},
		"<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>no</Message></Error></Errors></Response>",
		"<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>no</Message></Error></Errors></Response>",
		"<DescribeSpotPriceHistoryResponse><spotPriceHistorySet/><nextToken>again</nextToken></DescribeSpotPriceHistoryResponse>",
	},
}

// Whatever AWS answers in place of prices, the file keeps the last ones, and the error names what failed.
func TestFailedCallsKeepTheFile(t *testing.T) {
	t.Parallel()
	for _, c := range calls {
		for _, fault := range []struct {
			name   string
			status int
			answer string // empty with status 0: no answer
		}{
			{"denied", 400, c.denied}, {"throttled", 400, c.throttled}, {"500", 500, ""}, {"empty", 200, ""}, {"garbage", 200, "<html>502 Bad Gateway\x00"},
			{"page", 200, "<html><body>502</body></html>"}, {"a page without end", 200, c.endless}, {"slow", 0, ""},
		} {
			t.Run(c.name+"/"+fault.name, func(t *testing.T) {
				t.Parallel()
				fake := awstest.New(t, awsfake.Config{Region: "eu-west-1"})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var failed atomic.Int32
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					switch {
					case !c.is(r, string(body)):
						r.Body = io.NopCloser(strings.NewReader(string(body)))
						fake.ServeHTTP(w, r)
						return
					case fault.status == 0:
						cancel()
						<-r.Context().Done()
						return
					}
					failed.Add(1)
					w.WriteHeader(fault.status)
					_, _ = io.WriteString(w, fault.answer)
				}))
				defer server.Close()
				dir := t.TempDir()
				file, before := filepath.Join(dir, "prices.csv"), "instance_type,zone,spot,from,price\nm5.large,eu-west-1a,true,2026-02-20T00:00:00Z,0.04\n"
				for name, text := range map[string]string{
					"weir.yaml":  fmt.Sprintf("aws: {region: eu-west-1, endpoint_url: %q, access_key_file: %q}\n", server.URL, filepath.Join(dir, "keys.json")),
					"keys.json":  `{"accessKeyId":"AKIATEST","secretAccessKey":"secret"}`,
					"prices.csv": before,
				} {
					if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				cli := &commands{&connect.CLI{Root: &command.Root{Stdout: io.Discard, Stderr: io.Discard, Settings: daemon.Settings{Configs: dir, Cluster: "c"}}}}
				err := cli.run(ctx, []string{"m5.large"}, flags{write: file, since: time.Hour})
				if err == nil || !strings.Contains(err.Error(), c.in) || len(err.Error()) > 400 {
					t.Errorf("%v, want an error about the %s", err, c.in)
				}
				if after, readErr := os.ReadFile(file); readErr != nil || string(after) != before {
					t.Errorf("the file is %q, %v", after, readErr)
				}
				if left, globErr := filepath.Glob(filepath.Join(dir, ".*")); globErr != nil || len(left) > 0 {
					t.Errorf("files %q are left, %v", left, globErr)
				}
				if n := failed.Load(); n > 3 {
					t.Errorf("%d calls, want at most 3", n)
				}
			})
		}
	}
}
