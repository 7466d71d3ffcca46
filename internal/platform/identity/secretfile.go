package identity

import (
	"errors"
	"fmt"
	"io"

	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
)

// ErrUnknownInstance is the error of Instances.Known for a machine that no pool has.
var ErrUnknownInstance = errors.New("no pool of the cluster has this instance")

// maxSecret bounds a file of keys, in bytes.
const maxSecret = 16 << 10

// ReadSecret reads a regular file that only its owner may read. It reads at most 16 KiB.
func ReadSecret(path string) ([]byte, error) {
	f, err := inputfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	switch info, err := f.Stat(); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("read %s: it is not a regular file: name a file", path)
	case inputfile.ReadableByOthers(path, info.Mode()):
		return nil, fmt.Errorf("read %s: mode %04o lets other users read a secret: run \"chmod 600 %s\"", path, info.Mode().Perm(), path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err == nil && len(data) > maxSecret {
		err = fmt.Errorf("read %s: it has more than %d bytes: name a file of keys", path, maxSecret)
	}
	return data, err
}
