// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Events in a folder that may mean another file or cgroup: made, gone, renamed, or written to the
// end.
const (
	cgroupEvents = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ONLYDIR
	policyEvents = unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO | unix.IN_ONLYDIR
)

// watcher reports that something changed in its folders. The receiver resyncs to find the change:
// events can be lost, and one resync handles many.
type watcher struct {
	file    *os.File
	fd      int
	mask    uint32
	matters func(name string) bool // of the entry; nil: all
	folders map[string]uint32
	// changed has capacity 1: further events need no entry.
	changed chan struct{}
}

// watch returns a watcher without folders.
func watch(mask uint32, matters func(name string) bool) (*watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch folders: %w", err)
	}
	return &watcher{file: os.NewFile(uintptr(fd), "inotify"), fd: fd, mask: mask, matters: matters,
		folders: map[string]uint32{}, changed: make(chan struct{}, 1)}, nil
}

// set replaces the watched folders. It skips missing ones and watches a replaced folder again.
func (w *watcher) set(folders []string) error {
	wanted := map[string]bool{}
	for _, path := range folders {
		if wanted[path] {
			continue
		}
		wanted[path] = true
		wd, err := unix.InotifyAddWatch(w.fd, path, w.mask)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
			delete(w.folders, path) // the kernel has removed the watch
			continue
		}
		if err != nil {
			return fmt.Errorf("watch %s: %w", path, err)
		}
		w.folders[path] = uint32(wd)
	}
	for path, wd := range w.folders {
		if !wanted[path] {
			_, _ = unix.InotifyRmWatch(w.fd, wd) // the folder and its watch may be gone
			delete(w.folders, path)
		}
	}
	return nil
}

// run passes events on until close.
func (w *watcher) run() error {
	buffer := make([]byte, 64<<10)
	for {
		n, err := w.file.Read(buffer)
		if errors.Is(err, os.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read watched folders: %w", err)
		}
		if w.any(buffer[:n]) {
			select {
			case w.changed <- struct{}{}:
			default:
			}
		}
	}
}

// any reports whether one of the events matters. An event is 16 bytes and a name padded with zeros
// (inotify(7)).
func (w *watcher) any(events []byte) bool {
	for len(events) >= unix.SizeofInotifyEvent {
		mask := binary.NativeEndian.Uint32(events[4:])
		length := int(binary.NativeEndian.Uint32(events[12:]))
		events = events[unix.SizeofInotifyEvent:]
		if length > len(events) {
			return true
		}
		name := string(bytes.TrimRight(events[:length], "\x00"))
		events = events[length:]
		if mask&unix.IN_Q_OVERFLOW != 0 || mask&unix.IN_IGNORED == 0 && (w.matters == nil || w.matters(name)) {
			return true
		}
	}
	return false
}

func (w *watcher) close() error { return w.file.Close() }
