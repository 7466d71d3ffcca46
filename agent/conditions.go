package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"

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
	conditionFile     = "ConditionsFile"     // the conditions of problem detectors are unreadable.
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
	return []string{conditionReadonly, conditionFull, conditionDisk, conditionFile, conditionFenced}
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
			c.Failed, c.Why = true, clip(err.Error())
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

// readConditions reads the conditions of problem detectors. The file may be missing.
func readConditions(folder string) ([]api.NodeCondition, error) {
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
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is not a regular file", path))
	}
	data, err := io.ReadAll(io.LimitReader(f, maxConditionsFile+1))
	if err != nil {
		return nil, err
	}
	out, err := decodeConditions(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

// decodeConditions reads a list of conditions.
func decodeConditions(data []byte) ([]api.NodeCondition, error) {
	var out []api.NodeCondition
	if err := strictjson.Within(data, maxConditionsFile, &out); err != nil {
		return nil, err
	}
	if err := wire.CheckConditions(out, maxDetected()); err != nil {
		return nil, err
	}
	for _, c := range out {
		if slices.Contains(ownConditions(), c.Type) {
			return nil, fmt.Errorf("condition %s is reserved for the agent: use another type", c.Type)
		}
	}
	return out, nil
}

// cutMark ends a text that was cut.
const cutMark = " ..."

// clip turns a text into a valid Why of a condition. It cuts a long text at a space.
func clip(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if len(s) > pools.MaxConditionWhy {
		s = strings.ToValidUTF8(s[:pools.MaxConditionWhy-len(cutMark)], "")
		if end := strings.LastIndexByte(s, ' '); end > 0 {
			s = s[:end]
		}
		s += cutMark
	}
	return s
}
