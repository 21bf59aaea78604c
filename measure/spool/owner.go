// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
)

// CheckOwner returns an error if the process is root's and the folder is another user's: that user
// cannot write the folders and files that root makes there. A missing folder is no error.
func CheckOwner(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	var folder unix.Stat_t
	if err := unix.Stat(dir, &folder); errors.Is(err, unix.ENOENT) {
		return nil
	} else if err != nil {
		return fmt.Errorf("open spool %s: %w", dir, err)
	}
	if folder.Uid == 0 {
		return nil
	}
	name := "#" + strconv.Itoa(int(folder.Uid))
	if owner, err := user.LookupId(name[1:]); err == nil {
		name = owner.Username
	}
	return fault.New(fault.Permission, fmt.Sprintf("run it as that user (sudo -u '%s'), start its service, or name another folder with --spool", name),
		"the spool %s is that of user %s, and folders that root makes are out of that user's reach", dir, name)
}
