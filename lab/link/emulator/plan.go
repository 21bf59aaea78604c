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
	unlimitedLeast = 1024      // buffers that an unlimited direction has at least
	spareMemory    = 128 << 20 // octets of all cables, for frames smaller than the MTU and for directions without a rate
	mostMemory     = 1 << 30   // octets of one cable
	longestQueue   = 64 << 20  // octets of a queue that was asked to have no limit
	deviations     = 6         // of jitter that frames may be held beyond the delay
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
	limits := budget{most: min(mostMemory, available()/4/max(1, len(cables))), spare: spareMemory / 2 / max(1, len(cables))}
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

// budget is what one cable may have.
type budget struct {
	most  int // octets in all
	spare int // octets of each direction's room for more, smaller frames than full-sized ones
	ring  int // entries
}

// sizeOf sizes a cable's memory. Full-sized frames must fit; beyond them there is room for as many
// small ones as the budget allows.
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
	if parts > mostParts {
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
		if d.Rate == 0 { // nobody knows what will come: what memory there is must do
			full, extra = full+unlimitedLeast, extra+min(large*parts, limits.spare/s.size)
			continue
		}
		full += large * parts
		extra += max(0, min(small-large, limits.spare/s.size))
	}
	rings := 4 * s.ring // both sockets' fill rings, and as many frames on their way out
	if need := (full + rings) * s.size; need > most {
		return size{}, fault.New(fault.Testbed, "lower the rate, the delay or the queue, or use fewer links",
			"cable %s holds up to %d MiB of frames, and %d MiB are there for it", cable.Name, need>>20, most>>20)
	}
	s.buffers = min(full+extra+rings, most/s.size)
	return s, nil
}

// bounded gives a queue without a limit the limit that memory sets: a second's worth, at most
// longestQueue. Beyond it frames are dropped at the tail, as from any queue.
func bounded(d link.Direction) link.Direction {
	if d.Rate > 0 && d.Queue.Bytes == 0 && d.Queue.Packets == 0 {
		d.Queue.Bytes = units.ByteSize(min(float64(d.Rate)/8, longestQueue))
	}
	return d
}

// inside is how many octets on the wire a direction may hold at once.
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

// available is MemAvailable in octets (proc_meminfo(5)); 1 GiB where it cannot be read.
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
