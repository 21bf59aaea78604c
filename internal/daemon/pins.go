// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"weir/internal/fault"
)

// safePins refuses a folder for pins that somebody else can move away or fill: what is enforced by
// them would no longer be found. Whoever makes the folder first in a bpf file system that all may
// write owns it.
func safePins(dir string) error {
	for path := dir; ; path = filepath.Dir(path) {
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return notPermitted(fmt.Errorf("look at %s: %w", path, err))
		}
		owner := int(info.Sys().(*syscall.Stat_t).Uid)
		exposed := info.Mode().Perm()&0o022 != 0 && info.Mode()&os.ModeSticky == 0
		if !info.IsDir() || owner != 0 && owner != os.Geteuid() || exposed {
			return fault.New(fault.Failed, fmt.Sprintf("look at what it holds, then remove it or make it root's own: chown root %s && chmod 700 %s", path, path),
				"%s belongs to user %d, mode %v: who may write it can move pins in it away", path, owner, info.Mode())
		}
		if path == filepath.Dir(path) {
			return nil
		}
	}
}
