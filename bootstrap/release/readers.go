package release

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/bootstrap/release/shareddir"
)

// The folder of a release has the mode 0700. Its POSIX access control list has an entry for each further user that may read it.
const (
	aclName    = "system.posix_acl_access"
	aclVersion = 2
	maxACL     = 64 << 10 // bytes; the limit of the kernel for an attribute
	aclHeader  = 4        // bytes
	aclEntry   = 8        // bytes: tag, permissions, id
)

// Tags of the entries, in the order that the kernel requires.
const (
	aclOwner      = 0x01
	aclUser       = 0x02
	aclOwnerGroup = 0x04
	aclMask       = 0x10 // the most that entries of users give
	aclOther      = 0x20
)

// AllowUser permits a user of this host to read the files of the release. Other users than these and the cache's owner cannot.
// The permission lasts until the release is removed from the cache, also through a repair of its files.
func (in Installed) AllowUser(ctx context.Context, id int) error {
	err := shareddir.Dir(filepath.Dir(in.Dir)).Locked(ctx, func() error {
		users, err := readers(in.Dir)
		if err != nil || slices.Contains(users, uint32(id)) {
			return err
		}
		if err := os.Chown(in.Dir, os.Geteuid(), -1); err != nil { // only the owner may change the list; a command of root may have fetched the release
			return err
		}
		return setReaders(in.Dir, append(users, uint32(id)))
	})
	if err != nil {
		return fmt.Errorf("permit user %d to read release %s: %w", id, in.Ref, err)
	}
	return nil
}

// readers returns the users in the list of a folder.
func readers(dir string) (users []uint32, err error) {
	list := make([]byte, maxACL)
	n, err := unix.Getxattr(dir, aclName, list)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil
	}
	if err != nil {
		return nil, &os.PathError{Op: "read the access control list of", Path: dir, Err: err}
	}
	for at := aclHeader; at+aclEntry <= n; at += aclEntry {
		if binary.LittleEndian.Uint16(list[at:]) == aclUser {
			users = append(users, binary.LittleEndian.Uint32(list[at+4:]))
		}
	}
	return users, nil
}

// copyReaders gives a folder the readers of another one, if that has any.
func copyReaders(to, from string) error {
	users, err := readers(from)
	if err != nil || len(users) == 0 {
		return err
	}
	return setReaders(to, users)
}

// setReaders replaces the users in the list of a folder.
func setReaders(dir string, users []uint32) error {
	const all, read, none = 7, 5, 0 // permissions; read includes search
	const noID = ^uint32(0)
	list := binary.LittleEndian.AppendUint32(nil, aclVersion)
	add := func(tag, permission uint16, id uint32) {
		list = binary.LittleEndian.AppendUint16(list, tag)
		list = binary.LittleEndian.AppendUint16(list, permission)
		list = binary.LittleEndian.AppendUint32(list, id)
	}
	add(aclOwner, all, noID)
	for _, id := range slices.Sorted(slices.Values(users)) {
		add(aclUser, read, id)
	}
	add(aclOwnerGroup, none, noID)
	add(aclMask, read, noID)
	add(aclOther, none, noID)
	err := unix.Setxattr(dir, aclName, list, 0)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("the file system of %s has no POSIX access control lists: choose a data folder on another one, such as ext4 or XFS", dir)
	}
	if err != nil {
		return &os.PathError{Op: "write the access control list of", Path: dir, Err: err}
	}
	return nil
}
