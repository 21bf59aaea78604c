// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/clock"
	"weir/kernel/packetsock"
	"weir/kernel/rtnl"
)

// socket opens a packet socket at a device; protocol 0 receives nothing.
func socket(port Port, protocol uint16) (fd int, device rtnl.Device, err error) {
	conn, err := rtnl.Open(port.Namespace)
	if err != nil {
		return -1, device, err
	}
	defer conn.Close()
	if device, err = conn.Device(port.Device); err != nil {
		return -1, device, err
	}
	if fd, err = packetsock.Open(port.Namespace, unix.SOCK_RAW|unix.SOCK_NONBLOCK); err != nil {
		return -1, device, err
	}
	if err := packetsock.Bind(fd, device.Index, protocol); err != nil {
		_ = unix.Close(fd)
		return -1, device, err
	}
	return fd, device, nil
}

type sender struct {
	fd    int
	clock clock.Monotonic
}

// openSender rejects frames that the device cannot send.
func openSender(from Port, c Capture) (*sender, error) {
	fd, device, err := socket(from, 0)
	if err != nil {
		return nil, err
	}
	s := &sender{fd: fd}
	for i, f := range c.Frames {
		_, at := network(f.Octets)
		if size := len(f.Octets) - at; size > device.MTU {
			s.close()
			return nil, fault.New(fault.Usage, fmt.Sprintf("capture with 'ethtool -K DEVICE gro off tso off', or run 'ip link set %s mtu %d'", from.Device, size),
				"frame %d of the capture carries %d octets, and %s has an MTU of %d", i+1, size, from.Device, device.MTU)
		}
	}
	// The device's own queue accepts frames at once: no qdisc delays or drops them.
	_ = unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1)
	if s.clock, err = clock.New(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *sender) close() { _ = unix.Close(s.fd) }

// send sends all rounds. Late frames are sent and counted.
func (s *sender) send(ctx context.Context, r *Result, frames []Frame, due func(int) time.Duration) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := s.clock.Now()
	for n := range len(frames) * r.Rounds {
		at := began
		if due != nil {
			at += int64(due(n))
		}
		if !s.wait(ctx, at) {
			r.Stopped = true
			break
		}
		now, err := s.write(ctx, frames[n%len(frames)].Octets)
		if err != nil {
			return fmt.Errorf("frame %d of the capture: %w", n%len(frames)+1, err)
		}
		if now == 0 {
			r.Stopped = true
			break
		}
		if n == 0 {
			began = now // the first frame is on time
			at = now
		}
		r.Sent++
		r.Elapsed = time.Duration(now - began)
		if due != nil {
			late := max(now-at, 0)
			r.Lateness.Record(uint64(late))
			if late > int64(LateAfter) {
				r.Late++
			}
		}
	}
	return nil
}

const (
	awake = 80_000     // ns before the due time that are spent busy-waiting
	nap   = 20_000_000 // maximum sleep in ns, so that Stop takes effect
)

// wait waits until a time of the clock; false if the replay must stop.
func (s *sender) wait(ctx context.Context, until int64) bool {
	for {
		now := s.clock.Now()
		left := until - now
		switch {
		case left > awake:
			if ctx.Err() != nil {
				return false
			}
			sleep := unix.NsecToTimespec(min(until-awake, now+nap))
			_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &sleep, nil)
		case left <= 0:
			return ctx.Err() == nil
		}
	}
}

// write sends a frame, retrying while the device is full, and returns the time of the successful
// call; 0 if the replay must stop.
func (s *sender) write(ctx context.Context, octets []byte) (at int64, err error) {
	for {
		at = s.clock.Now()
		_, err = unix.Write(s.fd, octets)
		switch {
		case err == nil:
			return at, nil
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EINTR):
			return at, fault.Wrap(err, fault.Failed, "is the device up, and is there a carrier?")
		case ctx.Err() != nil:
			return 0, nil
		}
	}
}
