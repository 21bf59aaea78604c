// SPDX-License-Identifier: Apache-2.0

package netstate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// fileWatch reports writes to settings of the namespace in which it was created (inotify(7)).
type fileWatch struct {
	fd      int
	folders map[int32]string // by watch descriptor
}

// watchSettings watches folders of the thread's namespace below /proc/sys/net. A missing folder
// belonged to a removed device, which is reported elsewhere.
func watchSettings(folders []string) (*fileWatch, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch settings: %w", err)
	}
	w := &fileWatch{fd: fd, folders: map[int32]string{}}
	for _, folder := range folders {
		path := filepath.Join(settingsRoot, folder)
		number, err := unix.InotifyAddWatch(fd, path, unix.IN_MODIFY)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			w.close()
			return nil, fmt.Errorf("watch settings in %s: %w", path, err)
		}
		w.folders[int32(number)] = path
	}
	return w, nil
}

func (w *fileWatch) close() {
	if w != nil {
		_ = unix.Close(w.fd)
	}
}

// changes returns the settings written to.
func (w *fileWatch) changes() (all []Change, err error) {
	buffer := make([]byte, 1<<14)
	for {
		n, err := unix.Read(w.fd, buffer)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return all, nil
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return all, fmt.Errorf("read the written settings: %w", err)
		}
		for rest := buffer[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			length := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(rest[12:]))
			if length > len(rest) {
				break
			}
			folder := w.folders[int32(binary.NativeEndian.Uint32(rest))]
			name := strings.TrimPrefix(filepath.Join(folder, unix.ByteSliceToString(rest[unix.SizeofInotifyEvent:length])), settingsRoot+"/")
			if !moving[name] && folder != "" {
				all = append(all, Change{What: "setting net/" + name})
			}
			rest = rest[length:]
		}
	}
}
