// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/netns"
)

// List returns the instances with a living owner. It ignores stale ones.
func List() ([]Info, error) {
	entries, err := os.ReadDir(Root())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list labs: %w", err)
	}
	var list []Info
	for _, entry := range entries {
		info, err := read(entry.Name())
		if err != nil || !info.owned() {
			continue
		}
		list = append(list, info)
	}
	return list, nil
}

// read returns the description of an instance.
func read(id string) (Info, error) {
	info := Info{ID: id, Dir: filepath.Join(Root(), id)}
	text, err := os.ReadFile(filepath.Join(info.Dir, "instance.json"))
	if err != nil {
		return info, fmt.Errorf("read lab %s: %w", id, err)
	}
	if err := json.Unmarshal(text, &info); err != nil {
		return info, fmt.Errorf("read lab %s: %w", id, err)
	}
	info.ID = id
	return info, nil
}

// openLock opens the file that the owner locks.
func (i Info) openLock(how int) (*os.File, error) {
	return os.OpenFile(filepath.Join(i.Dir, "lock"), os.O_RDWR|how, 0o600)
}

// owned reports whether the owner lives, by its lock, or by its process if the lock is not
// accessible.
func (i Info) owned() bool {
	lock, free, err := i.take(unix.LOCK_SH) // shared, so that two readers do not mistake each other for the owner
	if free {
		_ = lock.Close()
	}
	if errors.Is(err, os.ErrPermission) {
		return i.runs()
	}
	return err == nil && !free
}

// runs reports whether the registering process lives.
func (i Info) runs() bool {
	birth, err := processBirth(i.PID)
	return err == nil && birth == i.Birth
}

// take tries to lock an instance. A removed one is neither free nor an error.
func (i Info) take(how int) (lock *os.File, free bool, err error) {
	if lock, err = i.openLock(0); errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat(i.Dir); err != nil || i.runs() { // of a version that locks another file
			return nil, false, nil
		}
		lock, err = i.openLock(os.O_CREATE)
	}
	if err != nil {
		return nil, false, fmt.Errorf("look at lab %s: %w", i.ID, err)
	}
	err = unix.Flock(int(lock.Fd()), how|unix.LOCK_NB)
	if err == nil {
		return lock, true, nil
	}
	_ = lock.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, false, nil
	}
	return nil, false, fmt.Errorf("look at lab %s: %w", i.ID, err)
}

// Sweep removes every instance without a living owner and returns their ids.
func Sweep() ([]string, error) {
	if _, err := os.Stat(Root()); errors.Is(err, os.ErrNotExist) || os.Geteuid() != 0 {
		return nil, nil
	}
	stale, err := takeStale()
	var removed []string
	errs := []error{err, sweepTrials()}
	for _, instance := range stale {
		if err := instance.Close(); err != nil {
			errs = append(errs, fmt.Errorf("remove stale lab %s: %w", instance.ID, err))
			continue
		}
		removed = append(removed, instance.ID)
	}
	return removed, errors.Join(errs...)
}

// sweepTrials removes the namespaces of capacity trials (fidelity.Capacity) of processes that have
// ended; the name contains the process id.
func sweepTrials() error {
	const prefix = "weir-capacity-"
	names, err := netns.List(prefix)
	errs := []error{err}
	for _, name := range names {
		pid, _, _ := strings.Cut(strings.TrimPrefix(name, prefix), "-")
		if _, err := os.Stat("/proc/" + pid); pid != "" && errors.Is(err, os.ErrNotExist) {
			errs = append(errs, netns.Remove(name))
		}
	}
	return errors.Join(errs...)
}

// takeStale becomes the owner of every stale instance.
func takeStale() ([]*Instance, error) {
	book, err := openBook()
	if err != nil {
		return nil, err
	}
	defer func() { _ = book.Close() }()
	entries, err := os.ReadDir(Root())
	if err != nil {
		return nil, fmt.Errorf("list labs: %w", err)
	}
	var stale []*Instance
	var errs []error
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		info, _ := read(entry.Name()) // without instance.json the owner died at once
		lock, free, err := info.take(unix.LOCK_EX)
		if free {
			stale = append(stale, &Instance{Info: info, lock: lock})
		}
		errs = append(errs, err)
	}
	return stale, errors.Join(errs...)
}

// Find returns the living instance with the id, or the only one if id is "".
func Find(id string) (Info, error) {
	list, err := List()
	if err != nil {
		return Info{}, err
	}
	var up []Info
	for _, info := range list {
		if info.ID == id {
			return info, nil
		}
		if info.Purpose == Up {
			up = append(up, info)
		}
	}
	switch {
	case id != "":
		return Info{}, fault.New(fault.Usage, "see weir lab down --help, or list the labs that are up with weir lab list --up", "there is no lab %q", id)
	case len(up) == 1:
		return up[0], nil
	case len(up) == 0:
		return Info{}, fault.New(fault.Usage, "bring one up with: weir lab up SCENARIO", "no lab is up")
	}
	return Info{}, fault.New(fault.Usage, "name one with --lab ID; weir lab list --up shows them", "%d labs are up", len(up))
}

// End makes the owner remove its lab, waits for it, and removes any remains.
func End(ctx context.Context, info Info) error {
	if info.runs() && info.owned() {
		if err := unix.Kill(info.PID, unix.SIGTERM); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("end lab %s: %w", info.ID, err)
		}
	}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for gone := false; !gone; {
		if _, err := os.Stat(info.Dir); errors.Is(err, os.ErrNotExist) || !info.owned() {
			gone = true
			continue
		}
		select {
		case <-ctx.Done():
			return fault.New(fault.Failed, fmt.Sprintf("check process %d; kill -9 it and run weir lab down --all", info.PID),
				"end lab %s: its process has not ended: %w", info.ID, ctx.Err())
		case <-ticker.C:
		}
	}
	_, err := Sweep()
	return err
}
