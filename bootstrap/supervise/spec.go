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
	// ExecutableFD is the descriptor at which a child has Spec.Executable.
	ExecutableFD = 200

	// FirstExtraFD is the descriptor at which a child has Spec.ExtraFiles[0].
	FirstExtraFD = 3

	// DefaultStopGrace stands for a Spec.StopGrace of zero.
	DefaultStopGrace = 5 * time.Second

	maxUser = math.MaxInt32 // above it are ids that the kernel or other systems give a meaning
)

// Spec is what to start.
type Spec struct {
	// Name is the child's name in logs and errors.
	Name string

	// Argv is the command line. Argv[0] is an absolute path, and is what is
	// executed unless Executable is set; then it is only a name.
	Argv []string

	// Title is Argv[0] as the child and ps see it, if not empty. What is executed
	// stays the same.
	Title string

	// Executable, if not nil, is executed by its descriptor, as
	// /proc/self/fd/200, whatever its path has become. The child inherits the
	// descriptor, for a script's interpreter has to open it. The caller closes
	// its own after the start, as with ExtraFiles.
	Executable *os.File

	// Env is the complete environment, "KEY=VALUE" each. TagVariable is added.
	Env []string

	// Dir is the working directory; empty: that of this process.
	Dir string

	// Stdin, Stdout and Stderr are the child's descriptors 0, 1 and 2. Nil: the null
	// device for Stdin, Lines and Tail for the other two. The caller closes its own
	// after the start.
	Stdin, Stdout, Stderr *os.File

	// ExtraFiles are inherited: entry i is the child's descriptor 3+i.
	ExtraFiles []*os.File

	// StopGrace is the time from SIGTERM to SIGKILL; zero: DefaultStopGrace.
	StopGrace time.Duration

	// Lines is given the child's output, line by line, without the newline;
	// nil: only Tail has it. The line is valid during the call. Calls of
	// one stream follow each other, the two streams are concurrent. Lines must
	// return soon: the child waits for it, its end does not.
	//
	// A line is given whole as soon as it is written, in order; it is cut at
	// output.MaxLine bytes. Lines of a stream above output.MaxLinesPerSecond are dropped, and a
	// line says how many, once a second. So whoever listens here has a plugin's
	// handshake, its first line, before anything is logged.
	//
	// A call that does not return loses what follows, but not the child's end. It
	// keeps Launcher.Run from returning.
	Lines func(stream string, line []byte)

	// Tail, if not nil, keeps the last lines of the output, dropped ones too, and
	// is told of start and end. It may be that of a child before.
	Tail *output.Tail

	// Limits are what the child may use.
	Limits Limits

	// Isolated makes the child gain no privileges by what it executes (no_new_privs).
	Isolated bool

	// User, if not zero, is the user id and the group id of the child, which has no
	// other groups and no capabilities. The launcher needs the rights that
	// MissingRights looks for. Only with Isolated.
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
	if n := FirstExtraFD + len(s.ExtraFiles); n > ExecutableFD {
		errs = append(errs, fmt.Errorf("%d extra files, at most %d", len(s.ExtraFiles), ExecutableFD-FirstExtraFD))
	}
	if slices.Contains(s.ExtraFiles, nil) {
		errs = append(errs, errors.New("an extra file is nil"))
	}
	if s.User < 0 || s.User > maxUser || s.User > 0 && !s.Isolated {
		errs = append(errs, fmt.Errorf("user %d: want 0, or with Isolated a user id up to %d", s.User, maxUser))
	}
	if s.StopGrace < 0 {
		errs = append(errs, fmt.Errorf("stop grace %s is negative", s.StopGrace))
	}
	return errors.Join(append(errs, s.Limits.Validate())...)
}

func (s Spec) path() string {
	if s.Executable != nil {
		return "/proc/self/fd/" + strconv.Itoa(ExecutableFD)
	}
	return s.Argv[0]
}

// argv is the command line as the child sees it.
func (s Spec) argv() []string {
	if s.Title == "" {
		return s.Argv
	}
	return append([]string{s.Title}, s.Argv[1:]...)
}

// files returns what the child has open, by descriptor; nil is a closed one. The
// arguments are the standard files that the spec does not set.
func (s Spec) files(stdin, stdout, stderr *os.File) []*os.File {
	files := append([]*os.File{cmp.Or(s.Stdin, stdin), cmp.Or(s.Stdout, stdout), cmp.Or(s.Stderr, stderr)}, s.ExtraFiles...)
	if s.Executable != nil {
		files = append(files, make([]*os.File, ExecutableFD-len(files))...)
		files = append(files, s.Executable)
	}
	return files
}

// closeFiles closes what the child has inherited.
func (s Spec) closeFiles() {
	for _, f := range append([]*os.File{s.Executable}, s.ExtraFiles...) {
		if f != nil {
			f.Close()
		}
	}
}

func (s Spec) stopGrace() time.Duration {
	if s.StopGrace == 0 {
		return DefaultStopGrace
	}
	return s.StopGrace
}
