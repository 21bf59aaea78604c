// SPDX-License-Identifier: Apache-2.0

package fidelity

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"time"

	"weir/kernel/clock"
	"weir/lab/link/rawsock"
)

// Probe frames have the first EtherType that IEEE 802 reserves for local experiments: no stack
// accepts them.
const (
	etherType = 0x88b5
	header    = 14
	// number 4, send time 8, checksum 4
	smallest = header + 16
)

// prober sends probe frames from one end of a link and collects them at the other.
type prober struct {
	out, in *rawsock.Socket
	next    uint32 // number of the next frame
	frame   []byte
	buffer  []byte
	trains  trainPlan
}

// probe is the result of one frame. Times are CLOCK_REALTIME; arrived is 0 for a lost frame.
type probe struct {
	sent, arrived time.Duration
}

func newProber(from, to Endpoint) (p *prober, err error) {
	p = &prober{frame: make([]byte, 1<<14), buffer: make([]byte, 1<<16)}
	if p.out, err = rawsock.Open(from.Namespace, from.Device, rawsock.None); err != nil {
		return nil, err
	}
	if p.in, err = rawsock.Open(to.Namespace, to.Device, etherType); err != nil {
		_ = p.out.Close()
		return nil, err
	}
	return p, nil
}

func (p *prober) close() {
	_ = p.out.Close()
	_ = p.in.Close()
}

// build writes the next frame. Its destination is an unused unicast address, so that no host's
// stack answers.
func (p *prober) build(length int) []byte {
	f := p.frame[:length]
	copy(f, []byte{0x02, 0x57, 0x65, 0x69, 0x72, 0xff, 0x02, 0x57, 0x65, 0x69, 0x72, 0x01})
	binary.BigEndian.PutUint16(f[12:], etherType)
	binary.BigEndian.PutUint32(f[header:], p.next)
	binary.BigEndian.PutUint64(f[header+4:], uint64(rawsock.Now()))
	binary.BigEndian.PutUint32(f[header+12:], crc32.ChecksumIEEE(f[header:header+12]))
	p.next++
	return f
}

// parse reads a frame; ok is false if it was damaged.
func parse(f []byte) (number uint32, sent time.Duration, ok bool) {
	if len(f) < smallest || binary.BigEndian.Uint32(f[header+12:]) != crc32.ChecksumIEEE(f[header:header+12]) {
		return 0, 0, false
	}
	return binary.BigEndian.Uint32(f[header:]), time.Duration(binary.BigEndian.Uint64(f[header+4:])), true
}

func monotonic() time.Duration {
	return time.Duration(clock.Now())
}

// pace spaces frames like a leaky bucket: each takes a time, and frames worth ahead may leave
// early. After a pause the sender does not catch up, because the link's queue has run empty
// meanwhile.
type pace struct {
	each  time.Duration
	ahead int
}

// train sends count frames; length includes 14 bytes of Ethernet header.
func (p *prober) train(ctx context.Context, count, length int, spacing pace) error {
	credit := time.Duration(spacing.ahead) * spacing.each
	next := monotonic()
	for range count {
		for {
			wait := next - credit - monotonic()
			if wait <= 0 {
				break
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			rawsock.Pause(min(wait, 10*time.Millisecond))
		}
		if err := p.out.Send(ctx, p.build(length)); err != nil {
			return err
		}
		next = max(next, monotonic()) + spacing.each
	}
	return nil
}

// collect reads the frames numbered from first until all have arrived or none came for the quiet
// time. The frames waited in the socket, so that reading did not compete with sending for a CPU. It
// returns the number of damaged frames.
func (p *prober) collect(ctx context.Context, first uint32, into []probe, quiet time.Duration) (damaged uint64, err error) {
	for missing := len(into); missing > 0 && ctx.Err() == nil; {
		some, err := p.in.Wait(quiet)
		if err != nil || !some {
			return damaged, err
		}
		n, arrived, ok, err := p.in.Receive(p.buffer)
		if err != nil {
			return damaged, err
		}
		if !ok {
			continue
		}
		number, sent, whole := parse(p.buffer[:n])
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
	return damaged, ctx.Err()
}
