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

// secret is how a client of a folder authenticates. The zero value is no way.
type secret struct{ token, user, password string }

// secret returns how a client with that role authenticates.
func (a address) secret(u roles.User) (secret, error) {
	switch {
	case !a.Roles:
		return secret{token: a.Token}, nil
	case u.Role == "":
		return secret{}, errors.New("the bus of a data folder needs a role, and this process has none: set bus.Config.User")
	}
	return secret{user: u.Name(), password: Password(u, a.Token)}, u.Validate()
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
