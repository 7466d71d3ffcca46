package supervise

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Lines that a launcher writes to its keeper. Both ends are the same executable, so versions never mix.
//
//	= TAG                  the tag of everything that this launcher starts
//	+ PGID SESSION START   a group has started; START in clock ticks after boot
//	- PGID                 a group has ended
//	@ FOLDER               the cgroup of everything that this launcher starts
const (
	tagLine = "= %s\n"
	addLine = "+ %d %d %d\n"
	endLine = "- %d\n"

	cgroupLine = "@ %s\n"
)

// maxRegisterLine bounds a line, in bytes.
const maxRegisterLine = maxCgroupPath + 16

var errRegisterLine = errors.New("not a line of the register")

// register applies a line, without its newline. It rejects what could reach processes that were not launched: process
// 1, the numbers that kill(2) interprets as "all", an empty tag, a cgroup without the tag in its name.
func (q *survivors) register(line string) error {
	if line == "" {
		return errRegisterLine
	}
	line += "\n"
	switch line[0] {
	case '=':
		var tag string
		if _, err := fmt.Sscanf(line, tagLine, &tag); err != nil {
			return fmt.Errorf("%w: %w", errRegisterLine, err)
		}
		q.tag = tag
	case '+':
		var g group
		if _, err := fmt.Sscanf(line, addLine, &g.id, &g.session, &g.start); err != nil {
			return fmt.Errorf("%w: %w", errRegisterLine, err)
		}
		if g.id <= 1 {
			return fmt.Errorf("%w: group %d", errRegisterLine, g.id)
		}
		q.groups[g.id] = g
	case '-':
		var id int
		if _, err := fmt.Sscanf(line, endLine, &id); err != nil {
			return fmt.Errorf("%w: %w", errRegisterLine, err)
		}
		delete(q.groups, id)
	case '@':
		path := strings.TrimSuffix(strings.TrimPrefix(line, "@ "), "\n")
		if q.tag == "" || !filepath.IsAbs(path) || filepath.Clean(path) != path || filepath.Base(path) != cgroupPrefix+q.tag {
			return fmt.Errorf("%w: cgroup %q", errRegisterLine, path)
		}
		q.cgroup = cgroup(path)
	default:
		return fmt.Errorf("%w: %q", errRegisterLine, line[0])
	}
	return nil
}
