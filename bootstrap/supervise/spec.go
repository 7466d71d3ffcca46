package supervise

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise/output"
)

const (
	// executableFD is the child's descriptor of Spec.Executable.
	executableFD = 200

	// FirstExtraFD is the child's descriptor of Spec.ExtraFiles[0].
	FirstExtraFD = 3

	// defaultStopGrace replaces a Spec.StopGrace of zero.
	defaultStopGrace = 5 * time.Second

	maxUser = math.MaxInt32 // higher ids have a meaning to the kernel or to other systems
)

// Spec describes a child.
type Spec struct {
	// Name is the child's name in logs and errors.
	Name string

	// Argv is the command line. Argv[0] is the absolute path that is executed. If Executable is set, Argv[0] is only a
	// name.
	Argv []string

	// Title, if not empty, replaces Argv[0] in the child and in ps. It does not change the executed file.
	Title string

	// Executable, if not nil, is executed by its descriptor, as /proc/self/fd/200, independent of its path. The child
	// inherits the descriptor, because the interpreter of a script must open it. The caller closes its own after the
	// start, as with ExtraFiles.
	Executable *os.File

	// Env is the complete environment, "KEY=VALUE" entries. TagVariable is added.
	Env []string

	// Dir is the working directory. Empty means that of this process.
	Dir string

	// Stdin, Stdout and Stderr are the child's descriptors 0, 1 and 2. Nil means the null device for Stdin, and Lines
	// and Tail for the others. The caller closes its own after the start.
	Stdin, Stdout, Stderr *os.File

	// ExtraFiles are inherited. Entry i is the child's descriptor 3+i.
	ExtraFiles []*os.File

	// StopGrace is the time from SIGTERM to SIGKILL; zero: defaultStopGrace.
	StopGrace time.Duration

	// Lines receives the child's output, line by line, without the newline. If nil, only Tail receives it. The slice is
	// valid during the call. Calls for one stream are sequential; the two streams are concurrent. Lines must return
	// soon: it blocks the child's writes, but not its end.
	//
	// Each line is passed on as soon as it is written, in order, cut at output.MaxLine bytes. Lines of a stream above
	// output.MaxLinesPerSecond are dropped; once a second, an extra line reports how many. So a listener receives a
	// plugin's handshake, its first line, before anything is logged.
	//
	// A call that does not return loses the output that follows. It does not block the child's end, but it blocks
	// Launcher.Run.
	Lines func(stream string, line []byte)

	// Tail, if not nil, stores the last lines of the output, including dropped ones, and marks start and end. Several
	// children, one after another, may share it.
	Tail *output.Tail

	// Limits bound what the child may use.
	Limits Limits

	// Detached, if not empty, is a tag of NewTag. The child then has its own session and outlives the launcher. A later
	// launcher adopts it by its Identity. Requires Stdout and Stderr, because pipes end with this process.
	Detached string

	// NoCgroup leaves the child in the cgroup of this process. Requires no Limits.
	NoCgroup bool

	// Isolated prevents the child from gaining privileges by executing a program (no_new_privs).
	Isolated bool

	// User, if not zero, is the user id and the group id of the child. The child has no other groups and no
	// capabilities. The launcher needs the capabilities that MissingCapabilities checks. Requires Isolated.
	User int
}

// Validate returns every problem of the spec.
func (s Spec) Validate() error {
	var errs []error
	if s.Name == "" {
		errs = append(errs, errors.New("spec without a name"))
	}
	switch {
	case len(s.Argv) == 0:
		errs = append(errs, errors.New("argv is empty"))
	case s.Executable == nil && !filepath.IsAbs(s.Argv[0]):
		errs = append(errs, fmt.Errorf("argv[0] %q is not an absolute path", s.Argv[0]))
	}
	if n := FirstExtraFD + len(s.ExtraFiles); n > executableFD {
		errs = append(errs, fmt.Errorf("%d extra files, at most %d", len(s.ExtraFiles), executableFD-FirstExtraFD))
	}
	if slices.Contains(s.ExtraFiles, nil) {
		errs = append(errs, errors.New("an extra file is nil"))
	}
	if s.User < 0 || s.User > maxUser || s.User > 0 && !s.Isolated {
		errs = append(errs, fmt.Errorf("user %d: want 0, or with Isolated a user id up to %d", s.User, maxUser))
	}
	if s.Detached != "" {
		errs = append(errs, checkTag(s.Detached))
		if s.Stdout == nil || s.Stderr == nil {
			errs = append(errs, errors.New("a detached child needs files for its output"))
		}
	}
	if s.NoCgroup && s.Limits != (Limits{}) {
		errs = append(errs, errors.New("limits need a cgroup"))
	}
	if s.StopGrace < 0 {
		errs = append(errs, fmt.Errorf("stop grace %s is negative", s.StopGrace))
	}
	return errors.Join(append(errs, s.Limits.Validate())...)
}

func (s Spec) path() string {
	if s.Executable != nil {
		return "/proc/self/fd/" + strconv.Itoa(executableFD)
	}
	return s.Argv[0]
}

// argv returns the command line as the child finds it.
func (s Spec) argv() []string {
	if s.Title == "" {
		return s.Argv
	}
	return append([]string{s.Title}, s.Argv[1:]...)
}

// files returns the child's open files by descriptor; nil means closed. The arguments replace standard files that the
// spec does not set.
func (s Spec) files(stdin, stdout, stderr *os.File) []*os.File {
	files := append([]*os.File{cmp.Or(s.Stdin, stdin), cmp.Or(s.Stdout, stdout), cmp.Or(s.Stderr, stderr)}, s.ExtraFiles...)
	if s.Executable != nil {
		files = append(files, make([]*os.File, executableFD-len(files))...)
		files = append(files, s.Executable)
	}
	return files
}

// closeFiles closes the files that the child has inherited.
func (s Spec) closeFiles() {
	for _, f := range append([]*os.File{s.Executable}, s.ExtraFiles...) {
		if f != nil {
			f.Close()
		}
	}
}

func (s Spec) stopGrace() time.Duration {
	if s.StopGrace == 0 {
		return defaultStopGrace
	}
	return s.StopGrace
}
