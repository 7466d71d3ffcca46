package probes

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/netguard"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

func someNames() Names {
	return Names{Instance: "i-0a", Node: "node-1", PrivateIP: "10.0.0.7", PrivateDNS: "ip-10-0-0-7.internal", Zone: "eu-1a", Pool: "web", Port: 8080}
}

func TestExpand(t *testing.T) {
	for _, test := range []struct{ template, want string }{
		{"http://{private_ip}:{port}/healthz", "http://10.0.0.7:8080/healthz"},
		{"https://{private_dns}/", "https://ip-10-0-0-7.internal/"},
		{"https://abc123/{nodename}/bar", "https://abc123/node-1/bar"},
		{"http://h/{instance_id}/{node}?z={zone}&a={az}&p={pool}", "http://h/i-0a/node-1?z=eu-1a&a=eu-1a&p=web"},
		{"http://{node}.{zone}.example", "http://node-1.eu-1a.example"},
		{"http://[::1]:80/", "http://[::1]:80/"},
	} {
		if got, err := expandURL(test.template, someNames()); got != test.want || err != nil {
			t.Errorf("Expand(%s) = %s, %v, want %s", test.template, got, err, test.want)
		}
	}
	six := someNames()
	six.PrivateIP = "fd00::7"
	if got, err := expandURL("http://{private_ip}:80/{private_ip}", six); got != "http://[fd00::7]:80/fd00%3A%3A7" || err != nil {
		t.Errorf("an address of IPv6: %s, %v", got, err)
	}
}

func TestExpandRefuses(t *testing.T) {
	odd := Names{Node: "a/../b?x=1&y#z w", PrivateIP: "10.0.0.7/evil", PrivateDNS: "a@b", Zone: "a:80"}
	if got, err := expandURL("http://h/{node}", odd); got != "http://h/a%2F..%2Fb%3Fx%3D1%26y%23z%20w" || err != nil {
		t.Errorf("an odd name: %s, %v", got, err)
	}
	for _, test := range []struct{ template, says string }{
		{"ftp://h/", "http or https"},
		{"", "http or https"},
		{"http:///x", "a host"},
		{"http://h:99999/", "1 to 65535"},
		{"http://u:p@h/", "no user name"},
		{"http://{private_ip}/", "letters, digits"},
		{"http://{private_dns}/", "letters, digits"},
		{"http://{zone}/", "letters, digits"},
		{"http://{instance_id}/", "the node has no {instance_id}"},
		{"http://h:{port}/", "the node has no {port}"},
		{"http://{host}/", "unknown placeholder {host}: want one of {az}, {instance_id}"},
		{"http://h/{node", "a { without a }"},
		{"http://h/node}", "a } without a {"},
		{"http://h/" + strings.Repeat("x", maxURL), "at most"},
	} {
		if got, err := expandURL(test.template, odd); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("Expand(%.40s) = %.40s, %v, want ...%s...", test.template, got, err, test.says)
		}
	}
}

// FuzzExpand checks that the URL has the host and the path of its template, for any values.
func FuzzExpand(f *testing.F) {
	f.Add("http://{private_ip}:{port}/x/{node}?a={zone}", "10.0.0.1", "n")
	f.Add("http://h/{node}", "::1", "a/../b")
	f.Fuzz(func(t *testing.T, template, address, name string) {
		got, err := expandURL(template, Names{Node: name, PrivateIP: address, Port: 1})
		if err != nil {
			return
		}
		u, err := url.Parse(got)
		if err != nil || u.User != nil || len(got) > maxURL || u.Hostname() == "" {
			t.Fatalf("%q: %v", got, err)
		}
		got, err = expandURL("http://h/a/{node}/b?c={node}", Names{Node: name})
		if err != nil {
			return
		}
		u, err = url.Parse(got)
		if err != nil || u.Host != "h" || u.Path != "/a/"+name+"/b" || u.Query().Get("c") != name || u.Fragment != "" {
			t.Fatalf("%q of %q: %v", got, name, err)
		}
	})
}

func TestValidate(t *testing.T) {
	for _, test := range []struct {
		name       string
		change     func(*Config)
		path, says string
	}{
		{"unknown placeholder", func(c *Config) { c.Options.PollURL = "http://{ip}/" }, "poll_url", "unknown placeholder {ip}"},
		{"outside", func(c *Config) { c.Options.PollURL = "http://8.8.8.8/" }, "poll_url", "8.8.8.8 is outside the allowed networks: want one of 127.0.0.0/8"},
		{"no pattern", func(c *Config) { c.Options.PollHealthyResponse = "(" }, "poll_url_healthy_response", "not a regular expression"},
		{"longer than a round", func(c *Config) { c.Interval = 18 * time.Second }, "poll_url_retry_limit", "takes 18.02s, but the interval is 18s"},
		{"no interval", func(c *Config) { c.Interval = 0 }, "interval", "is 0s"},
		{"no networks", func(c *Config) { c.Allowed = nil }, "", "has no allowed networks"},
		{"workers", func(c *Config) { c.Workers = 1000 }, "", "want 0 to 256"},
		{"no defaults", func(c *Config) { c.Options = judge.Options{} }, "", "have no defaults"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := configOf(nil)
			test.change(&c)
			_, err := New(c)
			p, typed := errors.AsType[*judge.Problem](err)
			if err == nil || !strings.Contains(err.Error(), test.says) || test.path != "" && (!typed || p.Path != test.path) {
				t.Errorf("New = %v, want %s ...%s...", err, test.path, test.says)
			}
		})
	}
	c := configOf(nil)
	c.Allowed = netguard.Networks{netip.MustParsePrefix("10.0.0.0/8")}
	if _, err := New(c); err != nil {
		t.Error(err)
	}
}

func TestWorkers(t *testing.T) {
	c := configOf(func(o *judge.Options) {
		o.PollTimeout, o.PollRetryLimit, o.PollRetryInterval = new(judge.Duration(2*time.Second)), new(3), new(judge.Duration(3*time.Second))
	})
	c.Interval = 30 * time.Second
	for targets, want := range map[int]int{1: 1, 10: 10, 30: 16, 100: 40, 1000: 256, 100_000: 256} {
		if got := c.workers(targets); got != want {
			t.Errorf("%d workers for %d targets, want %d", got, targets, want)
		}
	}
}
