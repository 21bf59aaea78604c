// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// shared is a map's memory, shared with the program. Values are aligned to 8 bytes.
type shared struct{ octets []byte }

func share(m *ebpf.Map) (shared, error) {
	size := int(m.MaxEntries()) * ((int(m.ValueSize()) + 7) &^ 7)
	page := unix.Getpagesize()
	octets, err := unix.Mmap(m.FD(), 0, (size+page-1)/page*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return shared{}, fmt.Errorf("map a BPF map's memory: %w", err)
	}
	return shared{octets}, nil
}

func (s *shared) close() {
	if s.octets != nil {
		_ = unix.Munmap(s.octets)
		s.octets = nil
	}
}

// of returns the memory as values of one type.
func of[T any](s shared) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(s.octets))), len(s.octets)/int(unsafe.Sizeof(*new(T))))
}

// Commands of membarrier (linux/membarrier.h).
const membarrierGlobal = 1

// quiesce waits for the end of every running program: membarrier returns after an RCU grace period.
func quiesce() error {
	_, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0)
	switch {
	case errno == 0:
		return nil
	case errors.Is(errno, unix.EINVAL), errors.Is(errno, unix.ENOSYS):
		// Unavailable with nohz_full. A program runs for microseconds.
		time.Sleep(100 * time.Millisecond)
		return nil
	}
	return fmt.Errorf("wait for running programs: %w", errno)
}
