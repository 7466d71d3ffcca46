package bus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"

	"github.com/weirkeeper/weirkeeper/internal/strictjson"
	"github.com/weirkeeper/weirkeeper/internal/wholefile"
)

// maxAddress bounds address.json, in bytes.
const maxAddress = 4096

// address is the content of address.json.
type address struct {
	URL   string `json:"url"`
	Token string `json:"token"`
	PID   int    `json:"pid"`
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
