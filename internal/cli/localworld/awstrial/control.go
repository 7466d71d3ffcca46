package awstrial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
)

const (
	maxRequest  = 64 << 10 // bytes of a request to the control socket
	maxResponse = 16 << 20
	maxWait     = 10 * time.Second // for a response
)

// control lists the instances of a trial and causes faults.
type control struct {
	server *awsfake.Server
	owners []string // groups and fleets, in the order of the file

	mu  sync.Mutex // one fault at a time
	err error      // of the fault under way: a missing instance
}

// fail receives the errors of the server's controls.
func (c *control) fail(err error) { c.err = err }

// order is a fault and its arguments.
type order struct {
	Fault string   `json:"fault"`
	Args  []string `json:"args"`
}

// owned is a group or fleet, with its instances.
type owned struct {
	Name      string             `json:"name"`
	Target    int                `json:"target"`
	Instances []awsfake.Instance `json:"instances"`
}

func (c *control) list() (list []owned) {
	for _, name := range c.owners {
		list = append(list, owned{Name: name, Target: c.server.Target(name), Instances: c.server.Instances(name)})
	}
	return list
}

func (c *control) cause(o order) error {
	for _, f := range faults() {
		if f.name() != o.Fault {
			continue
		}
		if !f.accepts(len(o.Args)) {
			return fmt.Errorf("want %s", f.use)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.err = nil
		return errors.Join(f.cause(c.server, o.Args), c.err)
	}
	return fmt.Errorf("no fault %q", o.Fault)
}

// ServeHTTP responds to a command of this user.
func (c *control) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		json.NewEncoder(w).Encode(c.list())
		return
	}
	var o order
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&o)
	if err == nil {
		err = c.cause(o)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

// socket returns the path of the control socket of a data folder.
func socket(data string) string { return filepath.Join(data, "aws.sock") }

// listenControl listens on the control socket. The caller holds the lock of the trial, so an old socket is left over.
func listenControl(data string) (net.Listener, error) {
	path := socket(data)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for commands: %w; give a data folder with a shorter path", err)
	}
	return l, nil
}

// callControl sends a request to the trial of a data folder.
func callControl(ctx context.Context, data, method string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://trial/", bytes.NewReader(body))
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket(data))
		},
	}}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("reach the trial of data folder %s: %w; start it with \"weir-local aws serve FILE\"", data, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if err != nil {
		return fmt.Errorf("read the response of the trial: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(string(text)))
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}
