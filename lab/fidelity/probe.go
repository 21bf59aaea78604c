package fidelity

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"weir/internal/kernel/rtnl"
)

// Probe frames have the first EtherType that IEEE 802 sets aside for local experiments: no stack takes them.
const (
	etherType = 0x88b5
	header    = 14
	// number 4, send time 8, checksum 4
	smallest = header + 16
)

// prober sends probe frames from one end of a link and collects them at the other.
type prober struct {
	out, in int // AF_PACKET sockets
	mtu     int // of the sender
	next    uint32
	frame   []byte
	buffer  []byte
	control []byte
}

// probe is what became of one frame.
type probe struct {
	sent, arrived time.Duration // CLOCK_REALTIME; arrived 0 means that it has not
}

func newProber(from, to Endpoint) (*prober, error) {
	p := &prober{out: -1, in: -1, frame: make([]byte, 1<<14), buffer: make([]byte, 1<<14), control: make([]byte, 256)}
	if err := p.open(from, to); err != nil {
		p.close()
		return nil, fmt.Errorf("open probe sockets from %s to %s: %w", from.Device, to.Device, err)
	}
	return p, nil
}

func (p *prober) open(from, to Endpoint) (err error) {
	if p.out, p.mtu, err = packetSocket(from, 0); err != nil {
		return err
	}
	if p.in, _, err = packetSocket(to, etherType); err != nil {
		return err
	}
	// Frames wait in the socket until the train is over, so that reading does not compete with sending for a processor.
	if err := unix.SetsockoptInt(p.in, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 128<<20); err != nil {
		return fmt.Errorf("enlarge receive buffer: %w", err)
	}
	return unix.SetsockoptInt(p.in, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
}

// packetSocket opens a raw socket on a device; protocol 0 receives nothing.
func packetSocket(end Endpoint, protocol uint16) (fd, mtu int, err error) {
	conn, err := rtnl.Open(end.Namespace)
	if err != nil {
		return -1, 0, err
	}
	defer conn.Close()
	device, err := conn.Device(end.Device)
	if err != nil {
		return -1, 0, err
	}
	err = end.Namespace.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		return err
	})
	if err != nil {
		return -1, 0, err
	}
	network := protocol<<8 | protocol>>8
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: network, Ifindex: device.Index}); err != nil {
		_ = unix.Close(fd)
		return -1, 0, err
	}
	return fd, device.MTU, nil
}

func (p *prober) close() {
	for _, fd := range []int{p.out, p.in} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// build writes the next frame. Its destination is a unicast address that no host has, so that no host's stack answers.
func (p *prober) build(length int) []byte {
	f := p.frame[:length]
	copy(f, []byte{0x02, 0x57, 0x65, 0x69, 0x72, 0xff, 0x02, 0x57, 0x65, 0x69, 0x72, 0x01})
	binary.BigEndian.PutUint16(f[12:], etherType)
	binary.BigEndian.PutUint32(f[header:], p.next)
	binary.BigEndian.PutUint64(f[header+4:], uint64(realtime()))
	binary.BigEndian.PutUint32(f[header+12:], crc32.ChecksumIEEE(f[header:header+12]))
	return f
}

func realtime() time.Duration { return clock(unix.CLOCK_REALTIME) }

func clock(id int32) time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(id, &now)
	return time.Duration(now.Nano())
}

// train sends count frames of the given length (14 octets of Ethernet header included). Frame i leaves at its due time
// after the first, or at once if that has passed. A full device queue delays the train.
func (p *prober) train(ctx context.Context, count, length int, due func(i int) time.Duration) error {
	began := clock(unix.CLOCK_MONOTONIC)
	for i := range count {
		for {
			wait := due(i) - (clock(unix.CLOCK_MONOTONIC) - began)
			if wait <= 0 {
				break
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			pause := unix.NsecToTimespec(int64(min(wait, 10*time.Millisecond)))
			_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &pause, nil)
		}
		if err := p.send(ctx, length); err != nil {
			return err
		}
	}
	return nil
}

func (p *prober) send(ctx context.Context, length int) error {
	frame := p.build(length)
	for {
		_, err := unix.Write(p.out, frame)
		switch {
		case err == nil:
			p.next++
			return nil
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("send probe frame: %w", err)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		pause := unix.NsecToTimespec(int64(20 * time.Microsecond))
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &pause, nil)
	}
}

// collect reads frames numbered first to first+len(into)-1 until all are there or none came for the quiet time.
// It returns how many frames arrived damaged.
func (p *prober) collect(ctx context.Context, first uint32, into []probe, quiet time.Duration) (damaged uint64, err error) {
	missing := len(into)
	for missing > 0 && ctx.Err() == nil {
		readable := []unix.PollFd{{Fd: int32(p.in), Events: unix.POLLIN}}
		n, err := unix.Poll(readable, int(quiet.Milliseconds())+1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return damaged, fmt.Errorf("wait for probe frames: %w", err)
		}
		if n == 0 {
			break
		}
		for {
			number, sent, arrived, whole, err := p.receive()
			if err != nil {
				break // EAGAIN: all read
			}
			i := int(int32(number - first))
			switch {
			case !whole:
				damaged++
				missing--
			case i >= 0 && i < len(into) && into[i].arrived == 0:
				into[i] = probe{sent: sent, arrived: arrived}
				missing--
			}
		}
	}
	return damaged, ctx.Err()
}

// receive reads one frame and the time at which the kernel took it from the device.
func (p *prober) receive() (number uint32, sent, arrived time.Duration, whole bool, err error) {
	n, controls, _, _, err := unix.Recvmsg(p.in, p.buffer, p.control, unix.MSG_DONTWAIT)
	if err != nil {
		return 0, 0, 0, false, err
	}
	arrived = stamp(p.control[:controls])
	f := p.buffer[:n]
	if n < smallest || binary.BigEndian.Uint32(f[header+12:]) != crc32.ChecksumIEEE(f[header:header+12]) {
		return 0, 0, arrived, false, nil
	}
	sent = time.Duration(binary.BigEndian.Uint64(f[header+4:]))
	return binary.BigEndian.Uint32(f[header:]), sent, arrived, true, nil
}

// stamp reads the SCM_TIMESTAMPNS control message; without one, now.
func stamp(control []byte) time.Duration {
	for len(control) >= unix.CmsgLen(0) {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
		if h.Level == unix.SOL_SOCKET && h.Type == unix.SCM_TIMESTAMPNS && len(control) >= unix.CmsgLen(16) {
			at := (*unix.Timespec)(unsafe.Pointer(&control[unix.CmsgLen(0)]))
			return time.Duration(at.Nano())
		}
		step := unix.CmsgSpace(int(h.Len) - unix.CmsgLen(0))
		if step <= 0 || step > len(control) {
			break
		}
		control = control[step:]
	}
	return realtime()
}
