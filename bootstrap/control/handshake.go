package control

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	signalv1 "github.com/weirkeeper/weirkeeper/proto/signal/v1"
)

const (
	maxHandshake = 512 // bytes of the line
	maxPath      = 107 // bytes of a Unix socket's address
	maxQuoted    = 80  // bytes of a plugin's text that an error quotes
)

// parseHandshake returns the address in a handshake. The fields of the line are
//
//	core version | protocol version | network | address | rpc | certificate | multiplexing
//
// The last two are optional, and empty here. go-plugin parses the line again. The line must not contain a certificate:
// go-plugin would then use a TLS configuration that it does not have.
func parseHandshake(line []byte, folder string) (address string, err error) {
	text := string(bytes.TrimSpace(line[:min(len(line), maxHandshake+1)]))
	fields := strings.Split(text, "|")
	if len(line) > maxHandshake || len(fields) < 5 || len(fields) > 7 {
		return "", fmt.Errorf("%w: its first line is %.*q", ErrHandshake, maxQuoted, text)
	}
	if fields[0] != strconv.Itoa(signalv1.CoreVersion) {
		return "", fmt.Errorf("%w: version %.*q of go-plugin's core, want %d", ErrHandshake, maxQuoted, fields[0], signalv1.CoreVersion)
	}
	if fields[1] != strconv.Itoa(signalv1.ProtocolVersion) {
		return "", fmt.Errorf("%w: the signal has version %.*q, bootstrap has version %d",
			ErrProtocol, maxQuoted, fields[1], signalv1.ProtocolVersion)
	}
	if fields[4] != "grpc" {
		return "", fmt.Errorf("%w: it uses protocol %.*q, want %q", ErrHandshake, maxQuoted, fields[4], "grpc")
	}
	if len(fields) > 5 && fields[5] != "" {
		return "", fmt.Errorf("%w: it has a certificate, but TLS was not requested", ErrHandshake)
	}
	network, address := fields[2], fields[3]
	if network != "unix" || !filepath.IsAbs(address) || filepath.Clean(address) != address ||
		filepath.Dir(address) != folder || len(address) > maxPath || strings.ContainsRune(address, 0) {
		return "", fmt.Errorf("%w: address %.*q %.*q, want a unix socket in %s",
			ErrHandshake, maxQuoted, network, maxQuoted, address, folder)
	}
	return address, nil
}
