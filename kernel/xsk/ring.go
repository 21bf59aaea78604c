// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ring is one of a socket's four rings, shared with the kernel: one side produces, the other
// consumes, and each publishes its index. own is this side's index, ahead of the published one.
type ring struct {
	producer, consumer, flags *uint32
	entries                   unsafe.Pointer
	size                      uint32 // a power of two
	own                       uint32
	mapping                   []byte
}

func mapRing(fd int, page int64, offset unix.XDPRingOffset, size uint32, entry uintptr) (ring, error) {
	length := int(offset.Desc) + int(size)*int(entry)
	mapping, err := unix.Mmap(fd, page, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return ring{}, fmt.Errorf("map ring: %w", err)
	}
	base := unsafe.Pointer(&mapping[0])
	return ring{
		producer: (*uint32)(unsafe.Add(base, offset.Producer)),
		consumer: (*uint32)(unsafe.Add(base, offset.Consumer)),
		flags:    (*uint32)(unsafe.Add(base, offset.Flags)),
		entries:  unsafe.Add(base, offset.Desc),
		size:     size,
		mapping:  mapping,
	}, nil
}

func (r *ring) unmap() {
	if r.mapping != nil {
		_ = unix.Munmap(r.mapping)
		r.mapping = nil
	}
}

func (r *ring) desc(i uint32) *Desc {
	return (*Desc)(unsafe.Add(r.entries, uintptr(i&(r.size-1))*unsafe.Sizeof(Desc{})))
}

func (r *ring) addr(i uint32) *uint64 {
	return (*uint64)(unsafe.Add(r.entries, uintptr(i&(r.size-1))*8))
}

// free returns the number of entries that this side may produce.
func (r *ring) free() uint32 { return r.size - (r.own - atomic.LoadUint32(r.consumer)) }

// ready returns the number of entries that this side may consume.
func (r *ring) ready() uint32 { return atomic.LoadUint32(r.producer) - r.own }

func (r *ring) publishProduced() { atomic.StoreUint32(r.producer, r.own) }
func (r *ring) publishConsumed() { atomic.StoreUint32(r.consumer, r.own) }
