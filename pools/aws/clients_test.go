package aws

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/internal/platform/awssdk"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
)

func TestAuthoritiesOfTheEnvironment(t *testing.T) {
	s := awstest.New(t, awsfake.Config{})
	s.AddGroup(awsfake.ASG{Name: "web", Max: 9, Desired: 1, Tags: map[string]string{tag: ours}})
	front := httptest.NewTLSServer(s)
	t.Cleanup(front.Close)
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})
	if err := os.WriteFile(bundle, block, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"AWS_CA_BUNDLE": bundle, "AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "SECRET",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	} {
		t.Setenv(name, value)
	}
	cfg := configFor(s, AutoScaling)
	cfg.Endpoint, cfg.Keys = front.URL, nil
	p := open(t, cfg)
	if _, is := p.aws.autoscaling.Options().HTTPClient.(awssdk.Bounded); !is {
		t.Error("answers are not bounded")
	}
}

// Rotated keys sign the next request, for each source of keys.
func TestRotatedKeys(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		// Tools that rotate keys write a new file in place of the old one.
		file := filepath.Join(dir, name)
		err := os.WriteFile(file+".new", []byte(text), 0o600)
		if err == nil {
			err = os.Rename(file+".new", file)
		}
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	shared := func(key string) {
		t.Helper()
		t.Setenv("AWS_SHARED_CREDENTIALS_FILE",
			write("credentials", fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = SECRET\n", key)))
	}
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	given := ""
	for _, tc := range []struct {
		name   string
		rotate func(key string)
		keys   awssdk.Keys
	}{
		{"keys of the configuration", func(key string) { given = key }, func() (string, string, error) { return given, "SECRET", nil }},
		{"shared credentials file", shared, nil},
		{"shared credentials file, no keys in the configuration", shared, awssdk.Fixed("", "")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := awstest.New(t, awsfake.Config{})
			s.AddGroup(awsfake.ASG{Name: "web", Max: 9, Desired: 1, Tags: map[string]string{tag: ours}})
			var mu sync.Mutex
			signed := make(map[string]bool) // by access key
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, after, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
				key, _, _ := strings.Cut(after, "/")
				mu.Lock()
				signed[key] = true
				mu.Unlock()
				s.ServeHTTP(w, r)
			}))
			t.Cleanup(front.Close)
			tc.rotate("AKIDOLD")
			cfg := configFor(s, AutoScaling)
			cfg.Endpoint, cfg.Keys = front.URL, tc.keys
			p := open(t, cfg)
			for _, key := range []string{"AKIDOLD", "AKIDNEW"} {
				tc.rotate(key)
				mu.Lock()
				clear(signed)
				mu.Unlock()
				if _, err := p.Groups(t.Context()); err != nil {
					t.Fatal(err)
				}
				mu.Lock()
				if !signed[key] || len(signed) != 1 {
					t.Errorf("requests are signed with %v, want %s", signed, key)
				}
				mu.Unlock()
			}
		})
	}
}

// Each service has its own endpoint.
func TestEndpoints(t *testing.T) {
	var mu sync.Mutex
	asked := make(map[string]bool)
	urls := make(map[string]string)
	for _, service := range []string{"ec2", "autoscaling", "elasticloadbalancing", "sqs", "s3"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			asked[service] = asked[service] || strings.Contains(r.Header.Get("Authorization"), "/"+service+"/aws4_request")
			w.WriteHeader(http.StatusBadRequest)
		}))
		t.Cleanup(server.Close)
		urls[service] = server.URL
	}
	c, err := newClients(t.Context(), Config{
		Keys: awssdk.Fixed("AKID", "SECRET"), Endpoints: func(service string) string { return urls[service] },
	}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = c.ec2.DescribeTags(t.Context(), &ec2.DescribeTagsInput{})
	_, _ = c.autoscaling.DescribeAutoScalingGroups(t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{})
	_, _ = c.elasticloadbalancing.DescribeTargetGroups(t.Context(), &elb.DescribeTargetGroupsInput{})
	_, _ = c.sqs.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("q")})
	_, _ = c.s3.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String("b")})
	mu.Lock()
	defer mu.Unlock()
	if got := slices.Sorted(maps.Keys(asked)); len(got) != 5 || slices.Contains(slices.Collect(maps.Values(asked)), false) {
		t.Errorf("requests to %v, want one to each of five names", asked)
	}
}

func TestThrottledUntilTheContextEnds(t *testing.T) {
	s, p := openGroup(t, awsfake.ASG{Max: 9, Desired: 3})
	s.Throttle("", 1<<30)
	for _, tc := range []struct{ name, word string }{
		{"this call", "Throttling: Rate exceeded"},
		{"an earlier call", "because AWS throttles"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
			defer cancel()
			found, err := p.Groups(ctx)
			if err == nil {
				err = unreadable(ctx, found)
			}
			if !errors.Is(err, pools.ErrThrottled) || !strings.Contains(err.Error(), tc.word) || strings.Contains(err.Error(), "deadline") {
				t.Errorf("Groups = %v, want %v, and %q", err, pools.ErrThrottled, tc.word)
			}
			if !errors.Is(err, context.DeadlineExceeded) || mayHaveSucceeded(err) {
				t.Errorf("%v: want %v, and that nothing was done", err, context.DeadlineExceeded)
			}
		})
	}
}

func TestMayHaveSucceeded(t *testing.T) {
	s, p := openGroup(t, awsfake.ASG{Max: 9, Desired: 3})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	desire := func(ctx context.Context) error {
		return p.aws.write(t.Context(), "autoscaling:SetDesiredCapacity", "group web", func() error {
			_, err := p.aws.autoscaling.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{
				AutoScalingGroupName: aws.String("web"), DesiredCapacity: aws.Int32(4),
			}, func(o *autoscaling.Options) { o.Retryer = p.aws.once })
			return err
		})
	}
	g, before := one(t, p)
	end := func() error { return g.(scaling).end(t.Context(), before.Instances[0].ID, true) }
	for _, tc := range []struct {
		name string
		do   func() error
		want bool
	}{
		{"the wait for our own budget ended", func() error {
			c := clients{now: time.Now, writes: rate.NewLimiter(1, 1)}
			return c.write(ended, "a:B", "c", func() error { t.Error("it was sent"); return nil })
		}, false},
		{"the context ended before the SDK began", func() error { return desire(ended) }, false},
		{"refused", func() error { s.Deny("", ""); defer s.Allow(); return desire(t.Context()) }, false},
		{"lowered before it was refused", func() error {
			_ = end()
			return end()
		}, true},
		{"the answer was lost", func() error { s.Drop("SetDesiredCapacity", 1); return desire(t.Context()) }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := tc.do(); err == nil || mayHaveSucceeded(err) != tc.want {
				t.Errorf("mayBeDone(%v) = %v, want %v", err, !tc.want, tc.want)
			}
		})
	}
}
