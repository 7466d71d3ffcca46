// Package netguard restricts HTTP requests with untrusted targets to allowed networks. It resolves a host once,
// compares its addresses with the allowed [Networks], and dials the chosen address, even if the name's addresses
// change.
//
//	addrs, err := networks.Resolve(ctx, netguard.System, host)
//	client := &http.Client{Transport: netguard.NewTransport(true), CheckRedirect: netguard.SameHost}
//	req, err := http.NewRequestWithContext(netguard.Pin(ctx, addrs[0]), ...)
//
// Everything is safe for concurrent use.
//
// Checks of nodes by URL and webhooks of repairs use it. Without it a file of a pool could reach services inside
// of the network.
package netguard

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

var (
	// ErrOutside: the host has no address within the allowed networks.
	ErrOutside = errors.New("is outside the allowed networks")
	// errRedirect: the response was a refused redirect.
	errRedirect = errors.New("redirects elsewhere")
	// errUnpinned: the context has no address from Pin, a programming error.
	errUnpinned = errors.New("no address is pinned to the request")
)

const (
	maxRedirects = 5
	maxAddresses = 16       // of one host
	maxHeader    = 64 << 10 // bytes
)

// Networks are the networks whose addresses may be dialed. Link-local, multicast and unspecified addresses are never
// allowed, because metadata services use them.
type Networks []netip.Prefix

// Allows reports whether an address may be dialed.
func (n Networks) Allows(addr netip.Addr) bool {
	addr = addr.Unmap()
	if addr.IsUnspecified() || addr.IsMulticast() || addr.IsLinkLocalUnicast() {
		return false
	}
	return slices.ContainsFunc(n, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// String lists the networks.
func (n Networks) String() string {
	if len(n) == 0 {
		return "none"
	}
	names := make([]string, len(n))
	for i, p := range n {
		names[i] = p.String()
	}
	return strings.Join(names, ", ")
}

// Resolver returns the addresses of a name.
type Resolver func(ctx context.Context, host string) ([]netip.Addr, error)

// System is the Resolver of this machine.
func System(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// Resolve returns the allowed addresses of a host name or address, at least one. If no address is allowed, it returns
// ErrOutside.
func (n Networks) Resolve(ctx context.Context, resolve Resolver, host string) ([]netip.Addr, error) {
	addrs := []netip.Addr{}
	if addr, err := netip.ParseAddr(host); err == nil {
		addrs = append(addrs, addr)
	} else if addrs, err = resolve(ctx, host); err != nil {
		return nil, fmt.Errorf("resolve %.100q: %w", host, err)
	}
	var allowed []netip.Addr
	for _, addr := range addrs[:min(len(addrs), maxAddresses)] {
		if n.Allows(addr) {
			allowed = append(allowed, addr.Unmap())
		}
	}
	if len(allowed) == 0 {
		return nil, fmt.Errorf("host %.100q %w", host, ErrOutside)
	}
	return allowed, nil
}

type pinned struct{}

// pin is the only address for a request, with the request's context. A transport continues to dial after a request
// has ended, because another request could use the connection. A pinned connection cannot be reused, so dialing ends
// with the context.
type pin struct {
	addr  netip.Addr
	until context.Context
}

// Pin makes requests under the returned context connect to that address. Their connections end at its deadline.
func Pin(ctx context.Context, addr netip.Addr) context.Context {
	return context.WithValue(ctx, pinned{}, pin{addr, ctx})
}

// NewTransport returns a transport that dials only pinned addresses. It uses no proxy and no connection of an earlier
// request.
func NewTransport(verify bool) *http.Transport {
	return &http.Transport{
		DialContext:            dial,
		TLSClientConfig:        &tls.Config{InsecureSkipVerify: !verify},
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
	}
}

func dial(ctx context.Context, network, address string) (net.Conn, error) {
	p, ok := ctx.Value(pinned{}).(pin)
	if !ok {
		return nil, errUnpinned
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(p.until, network, net.JoinHostPort(p.addr.String(), port))
	if err != nil {
		return nil, err
	}
	if deadline, ok := p.until.Deadline(); ok {
		err = conn.SetDeadline(deadline)
	}
	return conn, err
}

// SameHost follows a few redirects, only to the host of the first request and never from https to http.
func SameHost(req *http.Request, via []*http.Request) error {
	switch first, last := via[0].URL, via[len(via)-1].URL; {
	case len(via) > maxRedirects:
		return fmt.Errorf("%w: more than %d times", errRedirect, maxRedirects)
	case req.URL.Hostname() != first.Hostname():
		return fmt.Errorf("%w: to another host", errRedirect)
	case last.Scheme == "https" && req.URL.Scheme != "https":
		return fmt.Errorf("%w: from https to http", errRedirect)
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return fmt.Errorf("%w: to another protocol", errRedirect)
	}
	return nil
}

// NoRedirect refuses every redirect.
func NoRedirect(*http.Request, []*http.Request) error { return errRedirect }
