// SPDX-License-Identifier: Apache-2.0

package netstate

import (
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const settingsRoot = "/proc/sys/net"

// moving are settings that are no settings: what they say changes by itself or belongs to the whole
// machine.
var moving = map[string]bool{
	"netfilter/nf_conntrack_count": true, "nf_conntrack_count": true,
	"ipv4/tcp_available_congestion_control": true, "ipv4/tcp_allowed_congestion_control": true, "ipv4/tcp_available_ulp": true,
}

// settings reads every setting of the namespace that the thread is in.
func (r *reader) settings() error {
	buffer := make([]byte, 1<<14)
	return eachSetting(func(name string) error {
		if n, err := readSetting(filepath.Join(settingsRoot, name), buffer); err == nil { // the others can only be written, or have no value
			r.state[settingPrefix+"net/"+name] = strings.TrimSpace(string(buffer[:n]))
		}
		return nil
	})
}

// readSetting reads a file with no more system calls than it takes: there are thousands.
func readSetting(path string, into []byte) (n int, err error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	n, err = unix.Read(fd, into)
	_ = unix.Close(fd)
	return max(n, 0), err
}

func eachSetting(f func(name string) error) error {
	return filepath.WalkDir(settingsRoot, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil // a device that has gone meanwhile
		}
		name := strings.TrimPrefix(path, settingsRoot+"/")
		if moving[name] {
			return nil
		}
		return f(name)
	})
}
