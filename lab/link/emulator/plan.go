// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"os"
	"strconv"
	"strings"
	"time"

	"weir/internal/fault"
	"weir/internal/units"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/xsk"
	"weir/lab/link"
)

const (
	headers        = 14 + 2*4 // Ethernet and two VLAN tags
	smallestWire   = 60 + link.FrameOverhead
	unlimitedRate  = 4e9       // bit/s that an unlimited direction is expected to carry
	unlimitedLeast = 1024      // minimum number of buffers of an unlimited direction
	spareMemory    = 128 << 20 // bytes of all cables for small frames and for directions without a rate
	maxMemory      = 1 << 30   // bytes of one cable
	maxQueue       = 64 << 20  // bytes of a queue without a requested limit
	deviations     = 6         // maximum jitter in standard deviations
)

// size is the memory of one cable.
type size struct {
	buffers, size, ring int
	jumbo               bool
}

// plan sizes every cable's memory for the frames it may hold: rate times delay, and the queue.
func plan(ns *netns.Namespace, cables []link.Cable) ([]size, error) {
	conn, err := rtnl.Open(ns)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	limits := budget{most: min(maxMemory, available()/4/max(1, len(cables))), spare: spareMemory / 2 / max(1, len(cables))}
	switch { // many cables are rarely all fast
	case len(cables) > 16:
		limits.ring = ringSize / 4
	case len(cables) > 4:
		limits.ring = ringSize / 2
	default:
		limits.ring = ringSize
	}
	sizes := make([]size, len(cables))
	for i, cable := range cables {
		device, err := conn.Device(cable.A)
		if err != nil {
			return nil, err
		}
		if sizes[i], err = sizeOf(cable, device.MTU, limits); err != nil {
			return nil, err
		}
	}
	return sizes, nil
}

// budget limits the memory of one cable.
type budget struct {
	most  int // bytes in all
	spare int // bytes per direction for small frames
	ring  int // entries
}

// sizeOf sizes a cable's memory: full-sized frames must fit, small ones as far as the budget
// allows.
func sizeOf(cable link.Cable, mtu int, limits budget) (size, error) {
	most := limits.most
	s := size{size: 2048, ring: limits.ring}
	frame := mtu + headers
	if frame > s.size-xsk.Headroom {
		s.size = 4096
		s.jumbo = frame > s.size-xsk.Headroom
	}
	parts := 1
	if s.jumbo {
		parts = 1 + (frame-(s.size-xsk.Headroom)+s.size-1)/s.size
	}
	if parts > maxParts {
		return size{}, fault.New(fault.Usage, "choose an MTU of at most 9216", "cable %s: MTU %d is too large", cable.Name, mtu)
	}
	if max(cable.Forward.Rate, cable.Reverse.Rate) <= slowRate && min(cable.Forward.Rate, cable.Reverse.Rate) > 0 {
		s.ring = min(s.ring, slowRing)
	}
	full, extra := 0, 0
	for _, d := range []link.Direction{bounded(cable.Forward), bounded(cable.Reverse)} {
		octets := inside(d, mtu)
		large := int(octets/float64(mtu+14+link.FrameOverhead)*1.1) + 64
		small := int(octets / smallestWire)
		if d.Rate == 0 { // unknown load: use the available memory
			full, extra = full+unlimitedLeast, extra+min(large*parts, limits.spare/s.size)
			continue
		}
		full += large * parts
		extra += max(0, min(small-large, limits.spare/s.size))
	}
	rings := 4 * s.ring // fill rings of both sockets, and as many frames in transmission
	if need := (full + rings) * s.size; need > most {
		return size{}, fault.New(fault.Testbed, "lower the rate, the delay or the queue, or use fewer links",
			"cable %s holds up to %d MiB of frames, and %d MiB are there for it", cable.Name, need>>20, most>>20)
	}
	s.buffers = min(full+extra+rings, most/s.size)
	return s, nil
}

// bounded gives a queue without a limit the limit that memory sets: a second's worth, at most
// maxQueue. Beyond it frames are dropped at the tail, as from any queue.
func bounded(d link.Direction) link.Direction {
	if d.Rate > 0 && d.Queue.Bytes == 0 && d.Queue.Packets == 0 {
		d.Queue.Bytes = units.ByteSize(min(float64(d.Rate)/8, maxQueue))
	}
	return d
}

// inside returns the maximum bytes on the wire in a direction.
func inside(d link.Direction, mtu int) float64 {
	d = d.Peak()
	rate, queue := float64(d.Rate), float64(d.Queue.Bytes)
	if packets := float64(d.Queue.Packets * (mtu + 14)); queue == 0 || packets > 0 && packets < queue {
		queue = packets
	}
	if d.Rate == 0 {
		rate, queue = unlimitedRate, 0
	}
	held := d.Delay + deviations*d.Jitter
	return rate/8*max(held, time.Millisecond).Seconds() + queue
}

// available returns MemAvailable in bytes (proc_meminfo(5)); 1 GiB if unreadable.
func available() int {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 1 << 30
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "MemAvailable:"); found {
			if kib, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB"))); err == nil {
				return kib << 10
			}
		}
	}
	return 1 << 30
}
