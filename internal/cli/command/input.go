package command

import (
	"io"

	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// Input opens the file that an argument names. Without one, or for "-", it is standard input. The caller closes it.
func (r *Root) Input(argument ...string) (io.ReadCloser, error) {
	if len(argument) == 0 || argument[0] == "-" {
		return io.NopCloser(r.Stdin), nil
	}
	f, err := inputfile.Open(argument[0])
	if err != nil {
		return nil, usage.New(err)
	}
	return f, nil
}

// ReadInput returns the content of a file, or of standard input for "-", and its name for errors. Of more than most bytes it
// returns the first most+1.
func (r *Root) ReadInput(path string, most int) (name string, data []byte, err error) {
	if path == "-" {
		data, err = io.ReadAll(io.LimitReader(r.Stdin, int64(most)+1))
	} else {
		data, err = inputfile.Read(path, most)
	}
	return InputName(path), data, err
}

// InputName returns the name for errors of a file: stdin for "-".
func InputName(path string) string {
	if path == "-" {
		return "stdin"
	}
	return path
}
