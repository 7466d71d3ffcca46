package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/platform/flock"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
	"github.com/weirkeeper/weirkeeper/internal/platform/wholefile"
)

// Files in stateFolder. A name of an app instance has no dot, so the others begin with one.
const (
	recordSuffix = ".json"
	nodeFile     = ".node.json"
	lockFile     = ".lock"
	recordSchema = 1
	maxRecord    = wire.MaxRequest + 8<<10 // bytes
	maxRecords   = 10_000
)

// errNewer: a later version of weir wrote a record.
var errNewer = errors.New("record of a newer schema")

// record is what survives the agent of one copy.
type record struct {
	Schema    int                 `json:"schema"`
	Node      string              `json:"node"`
	Start     wire.StartRequest   `json:"start"`
	Since     time.Time           `json:"since"`
	Asked     bool                `json:"asked,omitempty"`     // see copyOf
	Evacuated bool                `json:"evacuated,omitempty"` // see copyOf
	Tag       string              `json:"tag"`
	Ports     map[string]int      `json:"ports,omitempty"`    // see copyOf
	Process   *supervise.Identity `json:"process,omitempty"`  // nil: the start is unfinished
	Fetching  bool                `json:"fetching,omitempty"` // the start is acknowledged: its release is being fetched
	Ended     *time.Time          `json:"ended,omitempty"`    // nil: it runs
}

// validate returns an error for a record that no agent wrote.
func (r record) validate() error {
	errs := []error{r.Start.Validate()}
	if r.Process != nil {
		errs = append(errs, r.Process.Validate())
		if r.Process.Tag != r.Tag {
			errs = append(errs, errors.New("tag is not that of the process"))
		}
	}
	return errors.Join(errs...)
}

// nodeRecord is what survives the agent of the node.
type nodeRecord struct {
	Schema   int    `json:"schema"`
	Node     string `json:"node"`
	Cordoned bool   `json:"cordoned"`
	Fenced   bool   `json:"fenced"`
}

// records are the files of the copies. Only the agent's loop uses them.
type records struct {
	dir  string
	node string
	log  *slog.Logger
}

// lock makes sure that only one agent uses the folder. If the folder cannot be written, lock only logs that: the agent
// reports it as a condition of the node.
func (r records) lock() (unlock func(), err error) {
	if err = os.MkdirAll(r.dir, 0o700); err == nil {
		var lock *flock.File
		if lock, err = flock.Lock(filepath.Join(r.dir, lockFile)); err == nil {
			return func() { _ = lock.Unlock() }, nil // an error leaves only a process id in the file
		}
	}
	if held, ok := errors.AsType[*flock.HeldError](err); ok {
		return nil, fmt.Errorf("another agent, process %d, uses the folder %s: stop it, or choose another folder with --dir", held.PID, filepath.Dir(r.dir))
	}
	r.log.Warn("folder of the machine not locked", "dir", r.dir, "err", err)
	return func() {}, nil
}

// load returns the records of all copies, in no order. A damaged record, or one of another node, is set aside and costs
// only itself.
func (r records) load(now time.Time) (copies []record, node nodeRecord, err error) {
	entries, err := os.ReadDir(r.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, node, nil
	}
	if err != nil {
		return nil, node, fmt.Errorf("read the records of app instances: %w", err)
	}
	if len(entries) > 4*maxRecords {
		return nil, node, fmt.Errorf("read the records of app instances: %s has %d files, at most %d are expected: remove those that are not ours", r.dir, len(entries), 4*maxRecords)
	}
	known := map[string]bool{}
	for _, e := range entries {
		instance, ok := strings.CutSuffix(e.Name(), recordSuffix)
		if !ok || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		var c record
		err := r.read(e.Name(), &c)
		if err == nil && c.Start.Instance != instance {
			err = fmt.Errorf("it is the record of app instance %.130q", c.Start.Instance)
		}
		if err == nil {
			err = c.validate()
		}
		switch {
		case errors.Is(err, errNewer):
			return nil, node, err
		case err == nil && c.Node != r.node:
			err = fmt.Errorf("it is a record of node %.130q", c.Node)
		}
		if err != nil {
			r.setAside(now, e.Name(), err)
			continue
		}
		known[instance], copies = true, append(copies, c)
	}
	err = r.read(nodeFile, &node)
	switch {
	case errors.Is(err, errNewer):
		return nil, node, err
	case errors.Is(err, os.ErrNotExist):
	case err == nil && node.Node != r.node:
		err = fmt.Errorf("it is a record of node %.130q", node.Node)
		fallthrough
	case err != nil:
		r.setAside(now, nodeFile, err)
		node = nodeRecord{}
	}
	r.removeStrays(entries, known)
	return copies, node, nil
}

// read decodes a record.
func (r records) read(name string, into any) error {
	path := filepath.Join(r.dir, name)
	f, size, err := openOutput(path, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	if size > maxRecord {
		return fmt.Errorf("%s has %d bytes, at most %d are expected", path, size, maxRecord)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil {
		return err
	}
	var head struct{ Schema int }
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	if head.Schema > recordSchema {
		return fmt.Errorf("%s: %w: it has schema %d, and this weir reads %d: install the newer weir again", path, errNewer, head.Schema, recordSchema)
	}
	return strictjson.Within(data, maxRecord, into)
}

// setAside renames a record that cannot be used.
func (r records) setAside(now time.Time, name string, why error) {
	aside, err := wholefile.SetAside(filepath.Join(r.dir, name), now)
	r.log.Error("record of app instance set aside: if its process still runs, no agent stops it", "record", name, "err", why, "aside", aside, "rename_err", err)
}

// removeStrays removes outputs without a record, and unfinished files.
func (r records) removeStrays(entries []os.DirEntry, known map[string]bool) {
	for _, e := range entries {
		name := e.Name()
		instance, isOutput := strings.CutSuffix(name, outputSuffix)
		unfinished := strings.HasPrefix(name, ".") && !slices.Contains([]string{nodeFile, lockFile}, name)
		if isOutput && !known[instance] || unfinished {
			_ = os.Remove(filepath.Join(r.dir, name)) // it stays until the next start
		}
	}
}

// write stores the record of a copy durably.
func (r records) write(c record) error {
	c.Schema, c.Node = recordSchema, r.node
	return r.store(c.Start.Instance+recordSuffix, c)
}

// writeNode stores the record of the node durably.
func (r records) writeNode(n nodeRecord) error {
	n.Schema, n.Node = recordSchema, r.node
	return r.store(nodeFile, n)
}

func (r records) store(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	return wholefile.Write(filepath.Join(r.dir, name), data)
}

// remove removes the record and the output of a copy.
func (r records) remove(instance string) {
	for _, suffix := range []string{recordSuffix, outputSuffix} {
		if err := os.Remove(filepath.Join(r.dir, instance+suffix)); err != nil && !errors.Is(err, os.ErrNotExist) {
			r.log.Warn("file of app instance not removed", "instance", instance, "err", err)
		}
	}
}
