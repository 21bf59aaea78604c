// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// batchSize is the maximum number of datagrams per system call.
	batchSize = 64
	// shortestNap saves a fast sender from waking for every datagram: datagrams due meanwhile are
	// sent together.
	shortestNap = 100 * time.Microsecond
	// maxNap bounds the delay until a slow sender notices the end of the flow.
	maxNap = 20 * time.Millisecond
)

// memInfoDrops is the index of the drop counter in SO_MEMINFO (linux/sock_diag.h).
const memInfoDrops = 8

// message is struct mmsghdr (sendmmsg(2)).
type message struct {
	header unix.Msghdr
	length uint32
}

// batch is memory for one sendmmsg or recvmmsg call.
type batch struct {
	messages [batchSize]message
	vectors  [batchSize]unix.Iovec
	memory   []byte
	size     int // bytes of memory per datagram
}

func newBatch(size int) *batch {
	b := &batch{memory: make([]byte, batchSize*size), size: size}
	for i := range b.messages {
		b.vectors[i].Base = &b.memory[i*size]
		b.vectors[i].SetLen(size)
		b.messages[i].header.Iov = &b.vectors[i]
		b.messages[i].header.SetIovlen(1)
	}
	return b
}

func (b *batch) datagram(i int) []byte { return b.memory[i*b.size : (i+1)*b.size] }

// call runs sendmmsg or recvmmsg for the first n messages and returns the number of processed ones.
func (b *batch) call(trap uintptr, fd, n, flags int) (int, error) {
	moved, _, errno := unix.Syscall6(trap, uintptr(fd), uintptr(unsafe.Pointer(&b.messages)), uintptr(n), uintptr(flags), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(moved), nil
}

// transmit sends by the schedule until it or the flow ends, and returns the number of datagrams
// that the kernel accepted. It sleeps in the kernel on its own thread with the finest timer slack:
// Go's timers are a millisecond late.
func (d *datagrams) transmit(during context.Context, plan schedule, payload int, begin time.Time) (sent uint64, err error) {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread's timer slack was changed, so it ends with the goroutine
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
		result <- d.client.control(func(fd int) error {
			var err error
			sent, err = transmit(during, fd, plan, payload, begin)
			return err
		})
	}()
	if err := <-result; err != nil {
		return sent, fmt.Errorf("send: %w", err)
	}
	return sent, nil
}

func transmit(during context.Context, fd int, plan schedule, payload int, begin time.Time) (uint64, error) {
	out := newBatch(payload)
	var sent uint64
	for sent < plan.total && during.Err() == nil {
		now := time.Since(begin)
		n := int(min(plan.ready(sent, now), batchSize))
		if n == 0 {
			nap(plan.due(sent) - now)
			continue
		}
		for i := range n {
			stamp{sequence: sent + uint64(i), sent: now}.put(out.datagram(i))
		}
		moved, err := out.call(unix.SYS_SENDMMSG, fd, n, 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			awaitRoom(fd)
		case errors.Is(err, unix.ENOBUFS):
			nap(shortestNap)
		case err != nil && !errors.Is(err, unix.EINTR):
			return sent, err
		}
		sent += uint64(moved)
	}
	return sent, nil
}

func nap(d time.Duration) {
	t := unix.NsecToTimespec(int64(min(max(d, shortestNap), maxNap)))
	_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &t, nil) // an early return only means another look at the clock
}

// awaitRoom waits until the socket's queue has shrunk.
func awaitRoom(fd int) {
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, int(maxNap/time.Millisecond))
}

// receive counts datagrams until the socket is interrupted. It copies only their stamps from the
// kernel.
func (d *datagrams) receive(begin time.Time) error {
	in := newBatch(stampSize)
	var (
		n   int
		err error
	)
	read := func(fd uintptr) bool {
		n, err = in.call(unix.SYS_RECVMMSG, int(fd), batchSize, unix.MSG_TRUNC|unix.MSG_DONTWAIT)
		return err != unix.EAGAIN && err != unix.EINTR
	}
	for {
		if outer := d.server.raw.Read(read); outer != nil {
			return outer
		}
		if err != nil {
			return err
		}
		now := time.Now()
		at := now.Sub(begin)
		for i := range n {
			s, ok := readStamp(in.datagram(i)[:min(int(in.messages[i].length), stampSize)])
			if ok && d.arrivals.add(s, at) {
				d.meter.add(now, int(in.messages[i].length))
			}
		}
	}
}

// memInfo reads a socket's memory counters.
func memInfo(fd int) (info [16]uint32, err error) {
	length := uint32(unsafe.Sizeof(info))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&length)), 0)
	if errno != 0 {
		return info, fmt.Errorf("read socket memory: %w", errno)
	}
	return info, nil
}
