package signaltest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// What a go-plugin host tells its plugin in the environment. The names of the
// last two are those of go-plugin.
const (
	cookieKey   = "WEIR_SIGNAL_PLUGIN"
	cookieValue = "3c1d0a5e-signal.v1.Control"
	versionsKey = "PLUGIN_PROTOCOL_VERSIONS"
	tlsKey      = "PLUGIN_CLIENT_CERT"
)

// protocolVersion is that of the control service.
const protocolVersion = 1

// coreVersion is that of go-plugin's handshake.
const coreVersion = "1"

// asPlugin is the environment in which bootstrap starts a signal, offering one
// protocol version.
func asPlugin(version int) []string {
	return []string{cookieKey + "=" + cookieValue, versionsKey + "=" + strconv.Itoa(version)}
}

// withoutPlugin takes away what would make a program believe that this process
// is its host.
func withoutPlugin(env []string) []string {
	return slices.DeleteFunc(env, func(variable string) bool {
		key, _, _ := strings.Cut(variable, "=")
		return key == cookieKey || key == versionsKey || key == tlsKey
	})
}

// handshake reads the first line of a go-plugin, and returns the version that it
// chose. The form is CORE|VERSION|NETWORK|ADDRESS|PROTOCOL and, perhaps, more.
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
