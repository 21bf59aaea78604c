// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Errors of [Socket.Kick]. They are fixed values so that the data path does not allocate.
var (
	ErrAgain   = errors.New("transmit: the device or the budget is full, kick again")       // EAGAIN, ENOBUFS
	ErrDropped = errors.New("transmit: the device dropped a frame, kick again")             // EBUSY
	ErrDown    = errors.New("transmit: the device is down or gone")                         // ENETDOWN, ENXIO
	ErrInvalid = errors.New("transmit: the kernel rejected a descriptor or the frame size") // anything else
)

const (
	maxTxBudget      = 9       // XDP_MAX_TX_SKB_BUDGET, Linux 6.18
	txBudget         = 256     // frames per kick; 32 on kernels without the option
	defaultSendLimit = 1 << 30 // bytes; SO_SNDBUFFORCE
)

// Options of a socket. The size of a ring is a power of two.
type Options struct {
	Receive  int // entries of the receive and fill rings; 0 for a socket that only sends
	Transmit int // entries of the transmit and completion rings; 0 for a socket that only receives
	// MultiBuffer allows frames of several buffers (XDP_USE_SG, Linux 6.6). The first socket of a
	// Umem decides for all.
	MultiBuffer bool
	ZeroCopy    bool // request zero-copy mode, which veth lacks; every device has copy mode
}

// Socket is an AF_XDP socket on one queue of one device. One thread owns it, together with its
// Umem.
type Socket struct {
	umem                               *Umem
	fd                                 int
	receive, fill, transmit, completed ring
	outstanding                        uint32 // transmitted and not yet completed
}

// Open opens a socket on a device's queue in the calling thread's namespace. EBUSY, after 2 s,
// means that the queue has another socket.
func Open(umem *Umem, ifindex, queue int, options Options) (*Socket, error) {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open AF_XDP socket (CONFIG_XDP_SOCKETS): %w", err)
	}
	s := &Socket{umem: umem, fd: fd}
	if err := s.setup(ifindex, queue, options); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("open AF_XDP socket on device %d queue %d: %w", ifindex, queue, err)
	}
	return s, nil
}

func (s *Socket) setup(ifindex, queue int, options Options) error {
	for _, size := range []int{options.Receive, options.Transmit} {
		if size < 0 || size > 1<<20 || bits.OnesCount(uint(size)) > 1 {
			return fmt.Errorf("a ring of %d entries: it must be a power of two", size)
		}
	}
	if options.Receive == 0 && options.Transmit == 0 {
		return errors.New("neither a receive nor a transmit ring is asked for")
	}
	shared := s.umem.owner
	if shared < 0 {
		if err := s.umem.register(s.fd); err != nil {
			return err
		}
	}
	if err := s.makeRings(options); err != nil {
		return err
	}
	// Both are optional: without them the kernel sends in smaller batches.
	_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, defaultSendLimit)
	_ = unix.SetsockoptInt(s.fd, unix.SOL_XDP, maxTxBudget, txBudget)
	address := unix.SockaddrXDP{Ifindex: uint32(ifindex), QueueID: uint32(queue), Flags: unix.XDP_USE_NEED_WAKEUP}
	address.Flags |= pick(options.ZeroCopy, unix.XDP_ZEROCOPY, unix.XDP_COPY)
	address.Flags |= pick(options.MultiBuffer, unix.XDP_USE_SG, 0)
	if shared >= 0 { // the first socket's flags apply to all; flags here are an error
		address.Flags, address.SharedUmemFD = unix.XDP_SHARED_UMEM, uint32(shared)
	}
	if err := s.bind(&address); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	return nil
}

// bind waits for a queue: the kernel releases it some time after its socket was closed.
func (s *Socket) bind(address *unix.SockaddrXDP) error {
	const patience, pause = 2 * time.Second, 5 * time.Millisecond
	for begin := time.Now(); ; time.Sleep(pause) {
		err := unix.Bind(s.fd, address)
		if !errors.Is(err, unix.EBUSY) || time.Since(begin) > patience {
			return err
		}
	}
}

func pick(condition bool, yes, no uint16) uint16 {
	if condition {
		return yes
	}
	return no
}

// makeRings sizes and maps the rings. The kernel requires a fill and a completion ring even if
// unused.
func (s *Socket) makeRings(options Options) error {
	var offsets unix.XDPMmapOffsets
	rings := []struct {
		into   *ring
		option int
		size   int
		page   int64
		offset *unix.XDPRingOffset
		entry  uintptr
	}{
		{&s.fill, unix.XDP_UMEM_FILL_RING, max(options.Receive, 64), unix.XDP_UMEM_PGOFF_FILL_RING, &offsets.Fr, 8},
		{&s.completed, unix.XDP_UMEM_COMPLETION_RING, max(options.Transmit, 64), unix.XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.Cr, 8},
		{&s.receive, unix.XDP_RX_RING, options.Receive, unix.XDP_PGOFF_RX_RING, &offsets.Rx, unsafe.Sizeof(Desc{})},
		{&s.transmit, unix.XDP_TX_RING, options.Transmit, unix.XDP_PGOFF_TX_RING, &offsets.Tx, unsafe.Sizeof(Desc{})},
	}
	for _, r := range rings {
		if r.size == 0 {
			continue
		}
		if err := unix.SetsockoptInt(s.fd, unix.SOL_XDP, r.option, r.size); err != nil {
			return fmt.Errorf("make ring of %d entries: %w", r.size, err)
		}
	}
	length := uint32(unsafe.Sizeof(offsets))
	if err := s.getOption(unix.XDP_MMAP_OFFSETS, unsafe.Pointer(&offsets), &length); err != nil {
		return fmt.Errorf("read ring offsets: %w", err)
	}
	for _, r := range rings {
		if r.size == 0 {
			continue
		}
		mapped, err := mapRing(s.fd, r.page, *r.offset, uint32(r.size), r.entry)
		if err != nil {
			return err
		}
		*r.into = mapped
	}
	return nil
}

func (s *Socket) getOption(option int, value unsafe.Pointer, length *uint32) error {
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(s.fd), unix.SOL_XDP, uintptr(option),
		uintptr(value), uintptr(unsafe.Pointer(length)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// FD returns the descriptor for poll: readable if frames have arrived.
func (s *Socket) FD() int { return s.fd }

// Close closes the socket and its rings. Buffers still in the kernel are lost to the Umem.
func (s *Socket) Close() error {
	for _, r := range []*ring{&s.receive, &s.fill, &s.transmit, &s.completed} {
		r.unmap()
	}
	if s.fd < 0 {
		return nil
	}
	err := unix.Close(s.fd)
	s.fd = -1
	if err != nil {
		return fmt.Errorf("close AF_XDP socket: %w", err)
	}
	return nil
}

// Fill gives unused receive buffers to the kernel until the ring is full, and returns their number.
func (s *Socket) Fill() int {
	free := s.fill.free()
	for ; free > 0; free-- {
		addr, ok := s.umem.Take()
		if !ok {
			break
		}
		*s.fill.addr(s.fill.own) = addr
		s.fill.own++
	}
	s.fill.publishProduced()
	return int(s.fill.size - free)
}

// Filled returns the number of receive buffers left in the kernel.
func (s *Socket) Filled() int { return int(s.fill.size - s.fill.free()) }

// Receive stores descriptors of received frames into into and returns their number. The caller owns
// their buffers and must give each back to the Umem or transmit it.
func (s *Socket) Receive(into []Desc) int {
	n := min(s.receive.ready(), uint32(len(into)))
	if n == 0 {
		return 0
	}
	for i := range n {
		into[i] = *s.receive.desc(s.receive.own)
		s.receive.own++
	}
	s.receive.publishConsumed()
	return int(n)
}

// Transmit queues a frame, or a part of one (Desc.Flags Continues), without sending it yet; false
// means the ring is full. The buffer belongs to the kernel until Reap has returned it to the Umem.
func (s *Socket) Transmit(d Desc) bool {
	if s.outstanding >= s.completed.size || s.transmit.free() == 0 {
		return false
	}
	*s.transmit.desc(s.transmit.own) = d
	s.transmit.own++
	s.outstanding++
	return true
}

// Free returns the number of descriptors that Transmit will accept.
func (s *Socket) Free() int { return int(min(s.completed.size-s.outstanding, s.transmit.free())) }

// Unsent returns the number of descriptors that the kernel has not taken. If it is above 0, Kick
// again.
func (s *Socket) Unsent() int { return int(s.transmit.own - atomic.LoadUint32(s.transmit.consumer)) }

// Outstanding returns the number of transmitted buffers not yet returned.
func (s *Socket) Outstanding() int { return int(s.outstanding) }

// Kick publishes the queue of Transmit and makes the kernel send it now. It returns nil, ErrAgain,
// ErrDropped, ErrDown or ErrInvalid. It is a non-blocking system call: the calling thread
// keeps its CPU.
func (s *Socket) Kick() error {
	s.transmit.publishProduced()
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	switch errno {
	case 0, unix.EINTR:
		return nil
	case unix.EAGAIN, unix.ENOBUFS:
		return ErrAgain
	case unix.EBUSY:
		return ErrDropped
	case unix.ENETDOWN, unix.ENXIO:
		return ErrDown
	}
	return ErrInvalid
}

// Reap returns the buffers of sent frames to the Umem, and their number.
func (s *Socket) Reap() int {
	n := s.completed.ready()
	if n == 0 {
		return 0
	}
	for range n {
		s.umem.Give(*s.completed.addr(s.completed.own))
		s.completed.own++
	}
	s.completed.publishConsumed()
	s.outstanding -= n
	return int(n)
}

// Statistics holds the kernel's error counters of a socket (XDP_STATISTICS), in frames or
// descriptors.
type Statistics struct {
	RxDropped, RxInvalid, TxInvalid uint64
	RxRingFull                      uint64 // frames lost because Receive was not called in time
	FillEmpty                       uint64 // frames lost because the kernel had no buffer
	TxEmpty                         uint64
}

// Statistics returns the counters since the socket was opened.
func (s *Socket) Statistics() (Statistics, error) {
	var raw unix.XDPStatistics
	length := uint32(unsafe.Sizeof(raw))
	if err := s.getOption(unix.XDP_STATISTICS, unsafe.Pointer(&raw), &length); err != nil {
		return Statistics{}, fmt.Errorf("read AF_XDP statistics: %w", err)
	}
	return Statistics{
		RxDropped: raw.Rx_dropped, RxInvalid: raw.Rx_invalid_descs, TxInvalid: raw.Tx_invalid_descs,
		RxRingFull: raw.Rx_ring_full, FillEmpty: raw.Rx_fill_ring_empty_descs, TxEmpty: raw.Tx_ring_empty_descs,
	}, nil
}
