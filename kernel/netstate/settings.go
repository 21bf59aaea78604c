// SPDX-License-Identifier: Apache-2.0

package netstate

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const settingsRoot = "/proc/sys/net"

// moving lists files that are no settings: their value changes by itself or belongs to the machine.
var moving = map[string]bool{
	"netfilter/nf_conntrack_count": true, "nf_conntrack_count": true,
	"ipv4/tcp_available_congestion_control": true, "ipv4/tcp_allowed_congestion_control": true, "ipv4/tcp_available_ulp": true,
}

// settings reads every setting of the thread's namespace.
func (r *reader) settings() error {
	return r.folder("", make([]byte, maxSetting))
}

// The kernel clears a buffer of the reader's size for each of thousands of settings, so the first
// buffer is small.
const (
	usualSetting = 256
	maxSetting   = 1 << 14
)

// folder reads a folder below the settings' root recursively. A missing one belonged to a removed
// device.
func (r *reader) folder(name string, buffer []byte) error {
	folder, err := os.Open(filepath.Join(settingsRoot, name))
	if err != nil {
		return nil
	}
	defer func() { _ = folder.Close() }()
	entries, _ := folder.ReadDir(-1)
	for _, entry := range entries {
		below := path.Join(name, entry.Name())
		if entry.IsDir() {
			if err := r.folder(below, buffer); err != nil {
				return err
			}
			continue
		}
		if moving[below] {
			continue
		}
		if n, err := readSetting(int(folder.Fd()), entry.Name(), buffer); err == nil { // others are write-only or have no value
			r.state[settingPrefix+"net/"+below] = strings.TrimSpace(string(buffer[:n]))
		}
	}
	return nil
}

// readSetting reads a file of an open folder with few system calls, because there are thousands. If
// the value fills the small buffer, it reads again with the whole one.
func readSetting(folder int, name string, into []byte) (n int, err error) {
	fd, err := unix.Openat(folder, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(fd) }()
	room := min(usualSetting, len(into))
	if n, err = unix.Read(fd, into[:room]); n == room {
		n, err = unix.Pread(fd, into, 0)
	}
	return max(n, 0), err
}

// settingFolders returns the folders of a state's settings, below the settings' root.
func settingFolders(s State) []string {
	folders := map[string]bool{}
	for key := range s {
		if name, found := strings.CutPrefix(key, settingPrefix+"net/"); found {
			folders[path.Dir(name)] = true
		}
	}
	return slices.Sorted(maps.Keys(folders))
}
