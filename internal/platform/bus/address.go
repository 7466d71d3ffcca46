package bus

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
	"github.com/weirkeeper/weirkeeper/internal/platform/wholefile"
)

// maxAddress bounds address.json, in bytes.
const maxAddress = 4096

// address is the content of address.json.
type address struct {
	URL   string `json:"url"`
	Token string `json:"token"` // the secret of the server
	PID   int    `json:"pid"`
	Roles bool   `json:"roles,omitempty"` // Server.Roles
}

// Password returns the password of a user on the bus of a data folder. It proves that the user has the secret of the
// folder, and it is of no use for another user.
func Password(u roles.User, secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(u.Name())) // never fails
	return hex.EncodeToString(mac.Sum(nil))
}

// accepts returns why a client with that role cannot authenticate; nil if it can.
func (a address) accepts(u roles.User) error {
	switch {
	case !a.Roles:
		return nil
	case u.Role == "":
		return errors.New("the bus of a data folder needs a role, and this process has none: set bus.Config.User")
	}
	return u.Validate()
}

// home is the server of a data folder, as one client finds it.
type home struct {
	folder folder
	user   roles.User
	last   atomic.Pointer[address] // at the last attempt to connect
}

// find returns where the server listens now: after a restart it has another port and another secret. While no server runs there, it
// returns the address of before.
func (h *home) find() string {
	if a, err := readAddress(h.folder.addressPath()); err == nil {
		h.last.Store(&a)
	}
	return strings.TrimPrefix(h.last.Load().URL, "nats://")
}

// authenticate lets each attempt send the secret of the server that find found.
func (h *home) authenticate(o *nats.Options) {
	if !h.last.Load().Roles {
		o.TokenHandler = func() string { return h.last.Load().Token }
		return
	}
	o.UserInfo = func() (string, string) { return h.user.Name(), Password(h.user, h.last.Load().Token) }
}

// readAddress reads a file of address.write.
func readAddress(path string) (address, error) {
	file, err := os.Open(path)
	if err != nil {
		return address{}, fmt.Errorf("read the address of the bus: %w", err)
	}
	defer file.Close() // only read
	data, err := io.ReadAll(io.LimitReader(file, maxAddress+1))
	if err != nil {
		return address{}, fmt.Errorf("read the address of the bus: %w", err)
	}
	a, err := decodeAddress(data)
	if err != nil {
		return address{}, fmt.Errorf("read %s: %w", path, err)
	}
	return a, nil
}

// decodeAddress accepts only loopback addresses.
func decodeAddress(data []byte) (address, error) {
	var a address
	if err := strictjson.Within(data, maxAddress, &a); err != nil {
		return address{}, err
	}
	u, err := url.Parse(a.URL)
	if err != nil {
		return address{}, fmt.Errorf("url: %w", err)
	}
	host, err := netip.ParseAddrPort(u.Host)
	if err != nil || !host.Addr().IsLoopback() || u.Scheme != "nats" || u.User != nil {
		return address{}, fmt.Errorf("url is %q: want nats://127.0.0.1:PORT", a.URL)
	}
	if a.Token == "" || a.PID <= 0 {
		return address{}, errors.New("token or pid is missing")
	}
	return a, nil
}

// write writes the address atomically, readable for this user only.
func (a address) write(path string) error {
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return wholefile.Write(path, append(data, '\n'))
}
