package daemon

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/flock"
	"github.com/weirkeeper/weirkeeper/internal/platform/wholefile"
)

// LockPool locks a pool in the data folder: one process of that kind.
func LockPool(dir, what, cluster, pool string) (*flock.File, error) {
	return Lock(dir, strings.Join([]string{what, cluster, pool}, "."), fmt.Sprintf("%s of pool %s/%s", what, cluster, pool))
}

// LockHarmonizer locks the harmonizer of a cluster in the data folder.
func LockHarmonizer(dir, cluster string) (*flock.File, error) {
	return Lock(dir, "harmonizer."+cluster, "harmonizer of cluster "+cluster)
}

// Lock takes the lock with that name in the data folder. what describes the holder in the error of a second process.
func Lock(dir, name, what string) (*flock.File, error) {
	locks := filepath.Join(dir, "locks")
	if err := os.MkdirAll(locks, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	lock, err := flock.Lock(filepath.Join(locks, name))
	if held, ok := errors.AsType[*flock.HeldError](err); ok {
		return nil, fmt.Errorf("another %s runs on this data folder already, process %d", what, held.PID)
	}
	return lock, err
}

// HolderName returns the lease holder name of a data folder's processes. The folder's lock proves that the previous
// process has ended. So the next one has the same name and takes the lease at once. A damaged file is set aside with one line
// in the log: the next process has a new name, and waits for the end of the lease once.
func HolderName(log *slog.Logger, dir string, of ...string) (string, error) {
	path := filepath.Join(dir, "locks", strings.Join(append([]string{"holder"}, of...), "."))
	id, err := readHolder(path)
	if err == nil && len(id) > 0 && !isHolder(id) {
		aside, asideErr := wholefile.SetAside(path, time.Now())
		if asideErr != nil {
			return "", fmt.Errorf("name of the lease's holder: %s is damaged: %w", path, asideErr)
		}
		log.Warn("damaged file set aside: the lease is taken after its end", "file", path, "aside", aside)
		id, err = nil, nil
	}
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(id) == 0 { // a crash may leave an empty file
		random := make([]byte, holderBytes)
		rand.Read(random)
		id = []byte(hex.EncodeToString(random))
		err = WriteFile(path, id)
	}
	if err != nil {
		return "", fmt.Errorf("name of the lease's holder: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name of the lease's holder: %w", err)
	}
	// On a shared folder each host has its own lock, so the name includes host and boot id.
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("name of the lease's holder: %w", err)
	}
	return strings.Join([]string{host, strings.TrimSpace(string(boot)), string(id)}, "/"), nil
}

// holderBytes are the random bytes of a holder's name.
const holderBytes = 16

// readHolder reads a little more than a name, so that a long file is damaged.
func readHolder(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	return io.ReadAll(io.LimitReader(f, int64(2*hex.EncodedLen(holderBytes))))
}

func isHolder(id []byte) bool {
	_, err := hex.DecodeString(string(id))
	return err == nil && len(id) == hex.EncodedLen(holderBytes)
}

// WriteFile creates the folder and calls wholefile.Write.
func WriteFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return wholefile.Write(path, data)
}
