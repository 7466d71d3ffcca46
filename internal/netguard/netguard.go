// Package netguard keeps requests that others can aim within the networks that they
// are meant for. A host is resolved once, its addresses are compared with the allowed
// [Networks], and what was found is dialled, whatever the name means by then.
//
//	addrs, err := networks.Resolve(ctx, netguard.System, host)
//	client := &http.Client{Transport: netguard.NewTransport(true), CheckRedirect: netguard.SameHost}
//	req, err := http.NewRequestWithContext(netguard.Pin(ctx, addrs[0]), ...)
//
// All of it may be used concurrently.
package netguard

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

var (
	// ErrOutside: the host has no address within the allowed networks.
	ErrOutside = errors.New("is outside the allowed networks")
	// ErrRedirect: the answer was a redirect that is not followed.
	ErrRedirect = errors.New("redirects elsewhere")
	// errUnpinned: a programming mistake, and never a way out.
	errUnpinned = errors.New("no address was chosen to dial")
)

const (
	maxRedirects = 5
	maxAddresses = 16       // of one host
	maxHeader    = 64 << 10 // bytes
)

// Networks are those whose addresses may be dialled. Addresses of one link, groups of
// hosts and the unspecified address never may: metadata services live there.
type Networks []netip.Prefix

// Allows reports whether an address may be dialled.
func (n Networks) Allows(addr netip.Addr) bool {
	addr = addr.Unmap()
	if addr.IsUnspecified() || addr.IsMulticast() || addr.IsLinkLocalUnicast() {
		return false
	}
	for _, p := range n {
		if p.Contains(addr) {
			return true
		}
	}
	return false
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

// Resolve returns the addresses of a host that may be dialled, at least one; the host
// is a name or an address. ErrOutside if it has others only.
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

// pin is what a request may dial, and until when. A transport goes on dialling when the
// request has ended, as another could use the connection; here none can.
type pin struct {
	addr  netip.Addr
	until context.Context
}

// Pin has requests under the returned context go to that address. Their connections
// end at its deadline.
func Pin(ctx context.Context, addr netip.Addr) context.Context {
	return context.WithValue(ctx, pinned{}, pin{addr, ctx})
}

// NewTransport returns a transport that dials what its requests are pinned to, and
// nothing else: no proxy, no connection kept from an earlier request.
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

// SameHost follows a few redirects, each to the host of the first request only, and
// never from https to http.
func SameHost(req *http.Request, via []*http.Request) error {
	switch first, last := via[0].URL, via[len(via)-1].URL; {
	case len(via) > maxRedirects:
		return fmt.Errorf("%w: more than %d times", ErrRedirect, maxRedirects)
	case req.URL.Hostname() != first.Hostname():
		return fmt.Errorf("%w: to another host", ErrRedirect)
	case last.Scheme == "https" && req.URL.Scheme != "https":
		return fmt.Errorf("%w: from https to http", ErrRedirect)
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return fmt.Errorf("%w: to another protocol", ErrRedirect)
	}
	return nil
}

// NoRedirect follows none.
func NoRedirect(*http.Request, []*http.Request) error { return ErrRedirect }
