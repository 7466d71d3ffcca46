package probes

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxURL is the maximum length of a URL, in bytes.
const maxURL = 2048

// Names are the values of the placeholders of a poll_url.
type Names struct {
	Instance   string // {instance_id}
	Node       string // {node}, {nodename}
	PrivateIP  string // {private_ip}
	PrivateDNS string // {private_dns}
	Zone       string // {zone}, {az}
	Pool       string // {pool}
	Port       int    // {port}; 0: no port
}

func placeholders() []string {
	return []string{"instance_id", "node", "nodename", "private_ip", "private_dns", "zone", "az", "pool", "port"}
}

func (n Names) value(placeholder string) (string, bool) {
	switch placeholder {
	case "instance_id":
		return n.Instance, true
	case "node", "nodename":
		return n.Node, true
	case "private_ip":
		return n.PrivateIP, true
	case "private_dns":
		return n.PrivateDNS, true
	case "zone", "az":
		return n.Zone, true
	case "pool":
		return n.Pool, true
	case "port":
		if n.Port == 0 {
			return "", true
		}
		return strconv.Itoa(n.Port), true
	}
	return "", false
}

// expandURL returns the URL of one node. A value never changes the structure of the URL: it is
// escaped, and in a host only letters, digits, "-", "." and addresses are valid.
func expandURL(template string, names Names) (string, error) {
	scheme, rest, ok := strings.Cut(template, "://")
	if !ok || scheme != "http" && scheme != "https" {
		return "", errors.New("want a URL with http or https")
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, err := expand(rest[:end], names, hostValue)
	if err != nil {
		return "", err
	}
	path, err := expand(rest[end:], names, pathValue)
	if err != nil {
		return "", err
	}
	expanded := scheme + "://" + authority + path
	u, err := url.Parse(expanded)
	switch {
	case err != nil || u.Hostname() == "" || !validPort(u.Port()):
		return "", errors.New("want a URL with http or https, a host, and a port of 1 to 65535 if any")
	case u.User != nil:
		return "", errors.New("want no user name and password in it")
	case len(expanded) > maxURL:
		return "", fmt.Errorf("want at most %d bytes", maxURL)
	}
	return expanded, nil
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

// expand replaces the placeholders of one part.
func expand(part string, names Names, write func(value string) (string, error)) (string, error) {
	var out strings.Builder
	for {
		before, after, opened := strings.Cut(part, "{")
		if strings.Contains(before, "}") {
			return "", errors.New("has a } without a {")
		}
		out.WriteString(before)
		if !opened {
			return out.String(), nil
		}
		name, rest, closed := strings.Cut(after, "}")
		if !closed {
			return "", errors.New("has a { without a }")
		}
		value, ok := names.value(name)
		switch {
		case !ok:
			sorted := slices.Sorted(slices.Values(placeholders()))
			return "", fmt.Errorf("unknown placeholder {%.40s}: want one of {%s}", name, strings.Join(sorted, "}, {"))
		case value == "":
			return "", fmt.Errorf("the node has no {%s}", name)
		}
		text, err := write(value)
		if err != nil {
			return "", fmt.Errorf("{%s} is %.40q: %w", name, value, err)
		}
		out.WriteString(text)
		part = rest
	}
}

var errHost = errors.New("want letters, digits, - and . only in a host, or an address")

// hostValue encodes a value in the host and port; an IPv6 address in brackets.
func hostValue(value string) (string, error) {
	if addr, err := netip.ParseAddr(value); err == nil && addr.Is6() && addr.Zone() == "" {
		return "[" + value + "]", nil
	}
	for i := range len(value) {
		if c := value[i]; (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			return "", errHost
		}
	}
	return value, nil
}

// pathValue encodes a value in the path or query.
func pathValue(value string) (string, error) {
	return strings.ReplaceAll(url.QueryEscape(value), "+", "%20"), nil
}
