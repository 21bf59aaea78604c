// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// ballast is a preallocated file. Records on a full disk take their space from it.
type ballast struct {
	path    string
	perTest int64
	minFree int64

	mu    sync.Mutex // guards the following
	size  int64      // allocated bytes
	need  int64      // bytes of the tests
	tests int64      // admitted and not released
}

// step is the number of tests by which the ballast grows, so that most admissions write nothing.
const step = 16

// overhead is the space freed for a file's name and folders; spend frees more if it needs more.
const overhead = 16 << 10

// isFull reports errors of a full disk or an exhausted quota.
func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

func (b *ballast) ready() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.grow(b.tests+1, b.need+b.perTest)
}

func (b *ballast) fill() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.grow(1, b.perTest)
}

func (b *ballast) admit(bytes int64) (release func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.grow(b.tests+1, b.need+bytes); err != nil {
		return nil, err
	}
	b.tests++
	b.need += bytes
	return sync.OnceFunc(func() { b.release(bytes) }), nil
}

func (b *ballast) release(bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tests--
	b.need -= bytes
	if keep := b.need + 2*step*b.perTest; b.size > 2*keep {
		_ = b.resize(keep) // too large is safe
	}
}

// grow makes the ballast large enough for that many tests, which need so many bytes.
func (b *ballast) grow(tests, need int64) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(b.path, &fs); errors.Is(err, unix.ENOENT) {
		if err := b.resize(0); err != nil {
			return err
		}
		return b.grow(tests, need)
	} else if err != nil {
		return fmt.Errorf("read the free space of the spool: %w", err)
	}
	free := int64(fs.Bavail) * fs.Bsize
	if free < b.minFree {
		return fmt.Errorf("%w: %d MiB are free, %d MiB are the minimum", ErrFull, free>>20, b.minFree>>20)
	}
	if fs.Files > 0 && fs.Ffree < uint64(4*tests) {
		return fmt.Errorf("%w: %d files can be made", ErrFull, fs.Ffree)
	}
	if need <= b.size {
		return nil
	}
	unit := step * b.perTest
	err := b.resize((need + unit - 1) / unit * unit)
	if isFull(err) {
		err = b.resize(need)
	}
	if isFull(err) {
		return fmt.Errorf("%w: no space to reserve for %d tests", ErrFull, tests)
	}
	return err
}

// resize allocates the ballast, or frees its end. File systems without preallocation get none.
func (b *ballast) resize(size int64) error {
	file, err := os.OpenFile(b.path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if size > b.size {
		err = unix.Fallocate(int(file.Fd()), 0, b.size, size-b.size)
		if errors.Is(err, unix.EOPNOTSUPP) {
			err = nil
		}
	}
	if err == nil || size < b.size {
		err = file.Truncate(size)
	} else {
		_ = file.Truncate(b.size) // an incomplete allocation may have extended it
	}
	if err == nil {
		b.size = size
	} else {
		err = fmt.Errorf("reserve space in the spool: %w", err)
	}
	return errors.Join(err, file.Close())
}

// spend calls write, and again after each time that a full disk failed it and the ballast had
// space for it.
func (b *ballast) spend(bytes int, write func() error) error {
	for {
		err := write()
		if err == nil || !isFull(err) {
			return err
		}
		if !b.free(int64(bytes)) {
			return fmt.Errorf("%w: %w", ErrFull, err)
		}
	}
}

// free gives up space for a file of that many bytes, with its folders. It reports false if nothing
// is left.
func (b *ballast) free(bytes int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.size == 0 {
		return false
	}
	return b.resize(max(0, b.size-bytes-overhead)) == nil
}
