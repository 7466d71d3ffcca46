package localworld

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/platform/wholefile"
	"github.com/weirkeeper/weirkeeper/internal/ui/apiserver"
)

// checkWebAddress refuses an address that other hosts reach: the token would pass the network without encryption.
func checkWebAddress(addr string) error {
	if addr == config.AdminOff {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("address of the dashboard %q: want HOST:PORT, or %s: %w", addr, config.AdminOff, err)
	}
	if !config.IsLoopback(host) {
		return fmt.Errorf("address of the dashboard %q: other hosts can reach it: listen on 127.0.0.1, or run \"weir web\" with tokens and a certificate", addr)
	}
	return nil
}

// webSecret returns the secret of the file of tokens, and creates a missing one. So a page that is open stays valid after
// a restart. It renames a damaged file.
func webSecret(data string, log *slog.Logger) (string, error) {
	path := daemon.WebTokens(data)
	tokens, err := apiserver.ReadTokens(path)
	if err == nil {
		return tokens[0].Secret, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		aside, failed := wholefile.SetAside(path, time.Now())
		if failed != nil {
			return "", fmt.Errorf("token of the dashboard: %w; remove %s, then a new one is created", errors.Join(err, failed), path)
		}
		log.Warn("token of the dashboard was damaged: open pages need the new link", "file", path, "damaged", aside, "err", err)
	}
	secret := rand.Text()
	text := fmt.Sprintf("# Written by \"weir up\": the token of its dashboard and HTTP API.\n%s local %s\n", apiserver.Operator, secret)
	if err := daemon.WriteFile(path, []byte(text)); err != nil {
		return "", fmt.Errorf("token of the dashboard: %w", err)
	}
	return secret, nil
}
