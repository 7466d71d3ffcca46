package signaltest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Environment variables that a go-plugin host sets for its plugin. go-plugin defines the names of the last two.
const (
	cookieKey   = "WEIR_SIGNAL_PLUGIN"
	cookieValue = "3c1d0a5e-signal.v1.Control"
	versionsKey = "PLUGIN_PROTOCOL_VERSIONS"
	tlsKey      = "PLUGIN_CLIENT_CERT"
)

// protocolVersion is the version of the control service.
const protocolVersion = 1

// coreVersion is the version of go-plugin's handshake.
const coreVersion = "1"

// asPlugin returns the environment in which bootstrap starts a signal, with one offered protocol version.
func asPlugin(version int) []string {
	return []string{cookieKey + "=" + cookieValue, versionsKey + "=" + strconv.Itoa(version)}
}

// withoutPlugin removes the variables that mark this process as a plugin host.
func withoutPlugin(env []string) []string {
	return slices.DeleteFunc(env, func(variable string) bool {
		key, _, _ := strings.Cut(variable, "=")
		return key == cookieKey || key == versionsKey || key == tlsKey
	})
}

// handshake parses the first line of a go-plugin, and returns the chosen version. The form is
// CORE|VERSION|NETWORK|ADDRESS|PROTOCOL, optionally with more fields.
func handshake(line string) (version int, err error) {
	fields := strings.Split(strings.TrimSpace(line), "|")
	if len(fields) < 5 || fields[0] != coreVersion {
		return 0, fmt.Errorf("the first line on standard output is %.100q, want the handshake of go-plugin", line)
	}
	if fields[2] != "unix" || fields[4] != "grpc" {
		return 0, fmt.Errorf("the handshake %.200q has network %q and protocol %q, want unix and grpc", line, fields[2], fields[4])
	}
	version, err = strconv.Atoi(fields[1])
	if err != nil {
		return 0, fmt.Errorf("the handshake %.200q has version %q, want a number", line, fields[1])
	}
	return version, nil
}
