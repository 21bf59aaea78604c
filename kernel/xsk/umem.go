// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Headroom is the free space in front of a received frame (XDP_PACKET_HEADROOM).
const Headroom = 256

// Desc describes a piece of a Umem: a frame, or a fragment that continues in the next descriptor.
type Desc struct {
	Addr  uint64 // offset in the Umem
	Len   uint32
	Flags uint32
}

// Continues flags a descriptor with a frame that continues in the next one (XDP_PKT_CONTD).
const Continues = 1

// Umem is memory divided into buffers of equal size, with a list of the free ones. One thread owns
// it.
type Umem struct {
	mem   []byte
	size  uint64
	count int
	free  []uint64
	owner int // descriptor of the socket that registered it; -1 before the first
}

// NewUmem creates a Umem of count buffers of size bytes each; size is 2048 or 4096. A frame of up
// to size - Headroom bytes fits into one buffer. NewUmem touches the memory, so that no page fault
// occurs later.
func NewUmem(count, size int) (*Umem, error) {
	if size != 2048 && size != 4096 {
		return nil, fmt.Errorf("make frame memory: buffers of %d octets; 2048 and 4096 are possible", size)
	}
	if count < 1 {
		return nil, fmt.Errorf("make frame memory: %d buffers", count)
	}
	flags := unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_POPULATE
	mem, err := unix.Mmap(-1, 0, count*size, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return nil, fmt.Errorf("make frame memory of %d MiB: %w", count*size>>20, err)
	}
	u := &Umem{mem: mem, size: uint64(size), count: count, free: make([]uint64, 0, count), owner: -1}
	for i := count - 1; i >= 0; i-- {
		u.free = append(u.free, uint64(i)*u.size)
	}
	return u, nil
}

// BufferSize returns the size of a buffer in bytes.
func (u *Umem) BufferSize() int { return int(u.size) }

// Count returns the number of buffers; Available returns the number of free ones.
func (u *Umem) Count() int     { return u.count }
func (u *Umem) Available() int { return len(u.free) }

// Take returns the offset of a free buffer.
func (u *Umem) Take() (addr uint64, ok bool) {
	last := len(u.free) - 1
	if last < 0 {
		return 0, false
	}
	addr = u.free[last]
	u.free = u.free[:last]
	return addr, true
}

// Give frees the buffer around addr.
func (u *Umem) Give(addr uint64) { u.free = append(u.free, addr&^(u.size-1)) }

// Bytes returns the bytes of a descriptor. They are valid until its buffer is freed.
func (u *Umem) Bytes(d Desc) []byte {
	return u.mem[d.Addr : d.Addr+uint64(d.Len) : d.Addr+uint64(d.Len)]
}

// Stamp returns the CLOCK_MONOTONIC time in ns at which the program of [Redirect] got the frame.
func (u *Umem) Stamp(d Desc) int64 { return *(*int64)(unsafe.Pointer(&u.mem[d.Addr-8])) }

// Close frees the memory. Every socket on it must have been closed.
func (u *Umem) Close() error {
	if err := unix.Munmap(u.mem); err != nil {
		return fmt.Errorf("free frame memory: %w", err)
	}
	u.mem, u.free = nil, nil
	return nil
}

// register registers the memory with the kernel through the first socket.
func (u *Umem) register(fd int) error {
	request := unix.XDPUmemReg{Addr: uint64(uintptr(unsafe.Pointer(&u.mem[0]))), Len: uint64(len(u.mem)), Size: uint32(u.size)}
	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_XDP, unix.XDP_UMEM_REG,
		uintptr(unsafe.Pointer(&request)), unsafe.Sizeof(request), 0)
	if errno != 0 {
		return fmt.Errorf("register frame memory: %w", errno)
	}
	u.owner = fd
	return nil
}
