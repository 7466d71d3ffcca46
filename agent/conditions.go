package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Conditions of the agent itself. Problem detectors cannot report them.
const (
	conditionReadonly = "ReadonlyFilesystem" // its folder cannot be written to.
	conditionFull     = "DiskFull"           // less than a hundredth of its disk is free, or a write failed for lack of space.
	conditionDisk     = "DiskError"          // a write failed for another reason, or does not end.
	conditionFile     = "ConditionsFile"     // unknown while the conditions of problem detectors are unreadable; it never fails.
	conditionListed   = "InstancesNotListed" // the heartbeat is too large to list all copies.
	conditionFenced   = "Fenced"             // its owner has fenced it.
)

const (
	conditionsFile    = "conditions.json"
	maxConditionsFile = 64 << 10 // bytes
	probeFile         = ".disk-check"
	probeBytes        = 4096
)

// ownConditions returns the types that only the agent reports.
func ownConditions() []string {
	return []string{conditionReadonly, conditionFull, conditionDisk, conditionFile, conditionListed, conditionFenced}
}

// maxDetected returns how many conditions problem detectors may report: the rest after the agent's
// own.
func maxDetected() int { return pools.MaxConditions - len(ownConditions()) }

// diskConditions returns all conditions of the disk after a write that ended with err.
func diskConditions(err error) []api.NodeCondition {
	failed := ""
	switch {
	case err == nil:
	case errors.Is(err, syscall.EROFS):
		failed = conditionReadonly
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		failed = conditionFull
	default:
		failed = conditionDisk
	}
	var out []api.NodeCondition
	for _, name := range []string{conditionReadonly, conditionFull, conditionDisk} {
		c := api.NodeCondition{Type: name}
		if name == failed {
			c.Failed, c.Why = true, wire.Clip(err.Error())
		}
		out = append(out, c)
	}
	return out
}

// checkDisk writes to the disk of the folder, and waits until the data is durable.
func checkDisk(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if err := probe(filepath.Join(folder, probeFile)); err != nil {
		return err
	}
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return fmt.Errorf("free space of %s: %w", folder, err)
	}
	return checkSpace(s.Bavail, s.Blocks)
}

// checkSpace returns an error that wraps syscall.ENOSPC if less than a hundredth of the blocks is
// free. Some file systems report no number of blocks.
func checkSpace(free, blocks uint64) error {
	if free >= blocks/100 {
		return nil
	}
	return fmt.Errorf("%d of %d blocks are free: %w", free, blocks, syscall.ENOSPC)
}

// probe writes a small file durably and removes it.
func probe(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, probeBytes))
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Remove(path)
}

// readConditions reads the conditions of problem detectors, which it returns as far as they are usable. The file may be
// missing. The error wraps errPart if only a part of the file is not usable.
func readConditions(folder string, now time.Time) ([]api.NodeCondition, error) {
	path := filepath.Join(folder, conditionsFile)
	// Do not open a pipe or follow a link: the read must end.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is not a regular file", path))
	}
	data, err := io.ReadAll(io.LimitReader(f, maxConditionsFile+1))
	if err != nil {
		return nil, err
	}
	out, err := decodeConditions(data, now.Sub(info.ModTime()))
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return out, err
}

var (
	// errPart: some conditions of the file are not usable, and the others are.
	errPart = errors.New("a part is ignored")
	// errUnnamed, beside errPart: the type of such a condition is unknown. It may be one of those that the file omits.
	errUnnamed = errors.New("a condition without a type")
)

// decodeConditions decodes a list of conditions that was written age ago. A condition with a period, in seconds, is
// Unknown if it is older, or if the period is not readable.
func decodeConditions(data []byte, age time.Duration) ([]api.NodeCondition, error) {
	if len(data) > maxConditionsFile {
		return nil, fmt.Errorf("%d bytes are too long: want at most %d", len(data), maxConditionsFile)
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, strictjson.Plain(err)
	}
	if raw == nil {
		return nil, errors.New("want a list, not null")
	}
	var list []api.NodeCondition
	var errs []error
	for _, one := range raw {
		c := wire.DecodeCondition(one)
		var more struct {
			Period float64 `json:"period"` // seconds
		}
		field, err := strictjson.Lenient(one, &more)
		switch {
		case slices.Contains(ownConditions(), c.Type):
			errs = append(errs, fmt.Errorf("condition %s is reserved for the agent: use another type", c.Type))
			continue
		case err != nil: // the condition is not an object
		case field != nil:
			c.Unknown, c.Why = true, wire.Clip(field.Error())
		case more.Period < 0:
			c.Unknown, c.Why = true, fmt.Sprintf("period is %v: want at least 0", more.Period)
		case more.Period > 0 && age.Seconds() > more.Period:
			c.Unknown, c.Why = true, fmt.Sprintf("the file is older than the period of %v s", more.Period)
		}
		list = append(list, c)
	}
	out, err := wire.Conditions(list, maxDetected())
	if err != nil {
		err = fmt.Errorf("%w: %w", errUnnamed, err)
	}
	if err = errors.Join(append(errs, err)...); err != nil {
		err = fmt.Errorf("%w: %w", errPart, err)
	}
	return out, err
}
