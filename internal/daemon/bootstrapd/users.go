package bootstrapd

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/platform/flock"
)

// maxUsersFile bounds the file of user ids, in bytes.
const maxUsersFile = 4 << 20

// users assigns a user id to each signal of a data folder. All bootstraps of the folder share its file, so a signal
// has the same id after each start. It implements bootstrap.Users.
type users struct {
	path        string // of the file; its lock is beside it
	first, last int
	log         *slog.Logger

	mu sync.Mutex
}

// openUsers returns the user ids of the signals. If signals must run as this process's user, u is nil and why has the
// reason and the remedy.
func openUsers(service config.Service, data string, log *slog.Logger) (u *users, why string) {
	first, last := service.Users()
	if why := NoUsers(first, last); why != "" {
		return nil, why
	}
	return &users{path: filepath.Join(data, "locks", "users.json"), first: first, last: last, log: log}, ""
}

// NoUsers returns why a bootstrap with this process's rights cannot assign user ids from that range, and the remedy;
// empty if it can.
func NoUsers(first, last int) string {
	if first == 0 {
		return `weir.yaml has "signal_users: none": remove it and restart bootstrap`
	}
	missing, err := supervise.MissingCapabilities()
	if err != nil {
		return err.Error()
	}
	if len(missing) > 0 {
		return withoutRights(os.Getuid(), missing)
	}
	for _, file := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		ids, err := os.ReadFile(file)
		if err != nil {
			return fmt.Sprintf("read the user ids of this container: %v", err)
		}
		if !mapped(string(ids), first, last) {
			return fmt.Sprintf("this container lacks user ids from %d to %d: set signal_users in weir.yaml to a range that %s lists", first, last, file)
		}
	}
	return ""
}

// withoutRights returns the missing rights of a user and the remedy.
func withoutRights(uid int, missing []string) string {
	lacks := fmt.Sprintf("user %d cannot start processes of other users without %s: ", uid, strings.Join(missing, ", "))
	if uid == 0 {
		return lacks + "add them to the capabilities of its container, or to CapabilityBoundingSet of its unit"
	}
	return lacks + "run bootstrap as root, or give its unit AmbientCapabilities=" + supervise.SwitchCapabilities()
}

// mapped reports whether one line of an id map, as in user_namespaces(7), includes all ids from first to last.
func mapped(ids string, first, last int) bool {
	for line := range strings.Lines(ids) {
		var inside, outside, count int
		if n, _ := fmt.Sscan(line, &inside, &outside, &count); n == 3 && inside <= first && last < inside+count {
			return true
		}
	}
	return false
}

// Of implements bootstrap.Users.
func (u *users) Of(address string) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	lock, err := u.lock()
	if err != nil {
		return 0, err
	}
	defer lock.Unlock()
	ids, err := u.read()
	if err != nil {
		return 0, err
	}
	if id, known := ids[address]; known && id >= u.first && id <= u.last {
		return id, nil
	}
	id, err := u.choose(address, ids)
	if err != nil {
		return 0, err
	}
	ids[address] = id
	text, err := json.MarshalIndent(ids, "", " ")
	if err == nil {
		err = daemon.WriteFile(u.path, text)
	}
	if err != nil {
		return 0, fmt.Errorf("save the user id of a signal: %w", err)
	}
	return id, nil
}

// Another bootstrap of the folder holds the lock only during a small write.
const (
	lockTimeout = 5 * time.Second
	lockPause   = 5 * time.Millisecond
)

// lock waits up to lockTimeout for other bootstraps of the folder.
func (u *users) lock() (*flock.File, error) {
	if err := os.MkdirAll(filepath.Dir(u.path), 0o700); err != nil {
		return nil, fmt.Errorf("lock the user ids of signals: %w", err)
	}
	timeout := time.After(lockTimeout)
	for {
		lock, err := flock.Lock(u.path + ".lock")
		if _, held := errors.AsType[*flock.HeldError](err); !held {
			return lock, err
		}
		select {
		case <-timeout:
			return nil, fmt.Errorf("lock the user ids of signals: %w: stop it, or wait until it ends", err)
		case <-time.After(lockPause):
		}
	}
}

// read returns the ids by address. It moves a damaged file aside.
func (u *users) read() (map[string]int, error) {
	ids := map[string]int{}
	file, err := os.Open(u.path)
	if errors.Is(err, fs.ErrNotExist) {
		return ids, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the user ids of signals: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxUsersFile))
	if err != nil {
		return nil, fmt.Errorf("read the user ids of signals: %w", err)
	}
	if err := json.Unmarshal(text, &ids); err != nil {
		aside := u.path + ".damaged"
		u.log.Error("user id file of signals damaged, assigning new ids", "file", u.path, "moved_to", aside, "err", err)
		if err := os.Rename(u.path, aside); err != nil {
			return nil, fmt.Errorf("move the damaged file of user ids: %w", err)
		}
		return map[string]int{}, nil
	}
	return ids, nil
}

// choose returns an id that no other address and no account of the host uses. It starts from a hash of the address,
// so most ids stay the same after a loss of the file.
func (u *users) choose(address string, ids map[string]int) (int, error) {
	taken := make(map[int]bool, len(ids))
	for _, id := range ids {
		taken[id] = true
	}
	hash := fnv.New32a()
	io.WriteString(hash, address)
	n := u.last - u.first + 1
	begin := int(hash.Sum32() % uint32(n))
	for i := range n {
		id := u.first + (begin+i)%n
		if !taken[id] && !isAccount(id) {
			return id, nil
		}
	}
	return 0, fmt.Errorf("all user ids from %d to %d are taken: set a larger range in weir.yaml (signal_users), or remove %s while no bootstrap of this folder runs",
		u.first, u.last, u.path)
}

func isAccount(id int) bool {
	text := strconv.Itoa(id)
	_, errUser := user.LookupId(text)
	_, errGroup := user.LookupGroupId(text)
	return errUser == nil || errGroup == nil
}

// openToUsers gives the users of signals access to releases and sockets below the data folder. The modes of the other
// subfolders deny access.
func openToUsers(data string) error {
	info, err := os.Stat(data)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.MkdirAll(data, 0o711)
	} else if err == nil {
		err = os.Chmod(data, info.Mode().Perm()|0o001)
	}
	if err != nil {
		return fmt.Errorf("open the data folder to the users of signals: %w", err)
	}
	return nil
}

// socketFolder returns an empty folder for the sockets of a pool's plugins: below the data folder or, if that path is
// too long, the temporary folder.
func socketFolder(data string, plan bootstrap.Plan) string {
	folder := filepath.Join(data, "run", plan.Cluster+"."+plan.Pool)
	const longest = 69 // bytes; the limit of package control
	if len(folder) > longest || os.RemoveAll(folder) != nil || os.MkdirAll(folder, 0o700) != nil {
		return os.TempDir()
	}
	return folder
}

// socketFolderOfUsers returns socketFolder, or the first temporary folder that all users can access.
func socketFolderOfUsers(data string, plan bootstrap.Plan) (string, error) {
	folder := socketFolder(data, plan)
	if folder != os.TempDir() {
		const searchable = 0o711
		if err := errors.Join(os.Chmod(filepath.Dir(folder), searchable), os.Chmod(folder, searchable)); err != nil {
			return "", err
		}
	}
	var errs []error
	for _, candidate := range []string{folder, os.TempDir(), "/tmp"} {
		err := supervise.ReachableByOthers(candidate)
		if err == nil {
			return candidate, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("find a folder for the sockets of signals: %w", errors.Join(errs...))
}
