package netguard

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"
)

func networks(t *testing.T, texts ...string) Networks {
	t.Helper()
	var out Networks
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func TestAllows(t *testing.T) {
	for _, test := range []struct {
		networks []string
		addr     string
		want     bool
	}{
		{[]string{"10.0.0.0/8"}, "10.1.2.3", true},
		{[]string{"10.0.0.0/8"}, "11.1.2.3", false},
		{[]string{"10.0.0.0/8"}, "::ffff:10.1.2.3", true},
		{[]string{"10.0.0.0/8"}, "::ffff:11.1.2.3", false},
		{[]string{"10.0.0.0/8", "fd00::/8"}, "fd00::1", true},
		{[]string{"0.0.0.0/0"}, "169.254.169.254", false},
		{[]string{"0.0.0.0/0"}, "224.0.0.1", false},
		{[]string{"0.0.0.0/0"}, "0.0.0.0", false},
		{[]string{"::/0"}, "fe80::1%eth0", false},
		{[]string{"::/0"}, "10.0.0.1", false},
		{nil, "127.0.0.1", false},
	} {
		if got := networks(t, test.networks...).Allows(netip.MustParseAddr(test.addr)); got != test.want {
			t.Errorf("%v allows %s: %t, want %t", test.networks, test.addr, got, test.want)
		}
	}
}

func TestResolve(t *testing.T) {
	resolve := func(_ context.Context, host string) ([]netip.Addr, error) {
		if host == "unknown" {
			return nil, errors.New("no such host")
		}
		return []netip.Addr{netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("::ffff:10.0.0.1")}, nil
	}
	in := networks(t, "10.0.0.0/8")
	if got, err := in.Resolve(t.Context(), resolve, "both"); err != nil || len(got) != 1 || got[0].String() != "10.0.0.1" {
		t.Errorf("both: %v, %v", got, err)
	}
	if _, err := in.Resolve(t.Context(), resolve, "8.8.8.8"); !errors.Is(err, ErrOutside) {
		t.Errorf("an address outside: %v", err)
	}
	if _, err := networks(t, "11.0.0.0/8").Resolve(t.Context(), resolve, "both"); !errors.Is(err, ErrOutside) {
		t.Errorf("a name outside: %v", err)
	}
	if _, err := in.Resolve(t.Context(), resolve, "unknown"); err == nil || errors.Is(err, ErrOutside) {
		t.Errorf("an unknown name: %v", err)
	}
}

// The name does not resolve: the transport dials the pinned address.
func TestTransportDialsThePin(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "" && r.URL.Path == "/away" {
			http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusFound)
		}
	}))
	defer server.Close()
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: NewTransport(true), CheckRedirect: SameHost}
	get := func(ctx context.Context, path string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://some.invalid:"+at.Port()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(req)
		if err == nil {
			err = answer.Body.Close()
		}
		return err
	}
	to := Pin(t.Context(), netip.MustParseAddr(at.Hostname()))
	if err := get(to, "/"); err != nil {
		t.Error(err)
	}
	if err := get(to, "/away"); !errors.Is(err, errRedirect) {
		t.Errorf("a redirect to another host: %v", err)
	}
	if err := get(t.Context(), "/"); !errors.Is(err, errUnpinned) {
		t.Errorf("without a pin: %v", err)
	}
}

func TestSameHost(t *testing.T) {
	request := func(at string) *http.Request {
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		return &http.Request{URL: u}
	}
	for _, test := range []struct {
		from, to string
		hops     int
		ok       bool
	}{
		{"http://a/x", "http://a/y", 1, true},
		{"http://a/x", "http://a:81/y", 5, true},
		{"http://a/x", "https://a/y", 1, true},
		{"http://a/x", "http://a/y", 6, false},
		{"http://a/x", "http://b/y", 1, false},
		{"https://a/x", "http://a/y", 1, false},
		{"http://a/x", "ftp://a/y", 1, false},
	} {
		var via []*http.Request
		for range test.hops {
			via = append(via, request(test.from))
		}
		if err := SameHost(request(test.to), via); (err == nil) != test.ok || err != nil && !errors.Is(err, errRedirect) {
			t.Errorf("%s to %s after %d: %v", test.from, test.to, test.hops, err)
		}
	}
}
