// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"math/bits"
	"time"

	"weir/internal/direction"
	"weir/internal/fault"
	"weir/internal/units"
	"weir/kernel/device"
	"weir/kernel/tc"
)

// Line is one shaper: for one direction of a device, or for a scope, shaped at the egress of this
// network namespace.
type Shaper struct {
	Device    string // "" for a scope
	Index     int    // of the device, or number of the scope
	Direction direction.Direction
	Namespace string        // path of a network namespace scope, charged at the local ends of its veth pairs; "" for others
	From      string        // path of the network namespace at the other end of the device; "" for others
	Nested    bool          // packets wait in the tree of the device's qdisc owner; Rate is 0
	Parent    uint32        // Key of the parent, charged too; 0 for none
	Follows   bool          // Rate is the lowest: other rates are set later
	Weight    int           // within the parent; 0 means 1
	Rate      units.BitRate // bit/s on the wire
	Cost      uint64        // ns per wire byte, times 2^24
	// Burst is how far an idle shaper may run ahead. Packets delayed by more than Mark are marked,
	// by more than Horizon dropped.
	Burst, Mark, Horizon time.Duration
	SmallOctets          uint32 // wire bytes; packets up to this size are dropped last
}

// MaxShapers is the maximum number of shapers.
const MaxShapers = 1024

// firstScopeKey is above all device indices; each scope has two keys, one per direction.
const firstScopeKey = 1 << 31

func keyOf(scope int, d direction.Direction) uint32 {
	return firstScopeKey | uint32(scope)<<1 | uint32(d)
}

// Key returns the key for use as a [Line.Parent]. It is 0 for the ingress of a device, which is
// shaped at an ifb that does not exist yet.
func (l Shaper) Key() uint32 {
	switch {
	case l.Device == "":
		return keyOf(l.Index, l.Direction)
	case l.Direction == direction.Egress:
		return uint32(l.Index)
	}
	return 0
}

// maxPace is the highest pacing rate of a socket, in bytes/s.
const maxPace = 1<<32 - 2

// Factors of the thresholds.
const (
	chanceShift = 48 // SHAPER_CHANCE_SHIFT
	// Early drops begin at earlyMarks mark thresholds of delay. At fullMarks beyond the mark
	// threshold, one of notifyDivisor packets causes a notification.
	earlyMarks, fullMarks, notifyDivisor = 5, 10, 4
	earlyDivisor                         = 16 // one of that many packets is dropped early at the horizon
	standingDivisor                      = 2  // of the early threshold: early drops of TCP flows with a standing queue begin there
	reserveDivisor                       = 4  // of the horizon: reserve of small packets
)

func (l Shaper) config(m Mechanism) shapeShaperConfig {
	if l.Rate == 0 { // charges its parent only
		c := shapeShaperConfig{Parent: l.Parent}
		if l.Direction == direction.Ingress {
			c.Flags = shapeShaperFlagsSHAPER_RECEIVED
		}
		return c
	}
	early := min(earlyMarks*l.Mark, l.Horizon-1)
	c := shapeShaperConfig{
		Cost: l.Cost, BurstNs: uint64(l.Burst), MarkNs: uint64(l.Mark), EarlyNs: uint64(early), StandingNs: uint64(l.Horizon), HorizonNs: uint64(l.Horizon),
		ReserveNs:   uint64(l.Horizon) / reserveDivisor,
		NotifySlope: 1 << chanceShift / notifyDivisor / uint64(fullMarks*l.Mark),
		EarlySlope:  1 << chanceShift / earlyDivisor / uint64(l.Horizon-early),
		IntervalNs:  uint64(l.interval()),
		SmallBytes:  l.SmallOctets,
		Weight:      uint32(max(l.Weight, 1)),
		Rate:        uint32(min(l.Rate/8, maxPace)),
		Parent:      l.Parent,
		SlotShift:   l.slotShift(),
	}
	c.Unit = max(1, 1<<shapeShaperFormatSHAPER_UNIT_SHIFT/c.Weight)
	if m == Fq {
		c.Flags |= shapeShaperFlagsSHAPER_STAMP
		c.StandingNs = uint64(early) / standingDivisor // without fair queueing a flow also waits for others
	}
	if l.Direction == direction.Ingress && l.Device != "" {
		c.Flags |= shapeShaperFlagsSHAPER_RECEIVED
	}
	return c
}

// interval returns the length of a flow-count interval: time for 128 full-sized frames, so that
// each of many flows sends some.
func (l Shaper) interval() time.Duration {
	const frames, minimum, maximum = 128, 20 * time.Millisecond, time.Second
	return min(max(time.Duration(frames*frame*8e9/float64(l.Rate)), minimum), maximum)
}

// slotShift returns the smallest shift with slots beyond the latest departure, including a partial
// slot at either end.
func (l Shaper) slotShift() uint32 {
	latest := uint64(l.Horizon + l.Horizon/reserveDivisor)
	return uint32(bits.Len64(latest / uint64(shapeShaperFormatSHAPER_SLOTS-2)))
}

const (
	// minBurst of an HTB class covers late timers: a class loses the tokens beyond its burst.
	minBurst = 5 * time.Millisecond
	frame    = 1514 // bytes
	// limitFactor is the qdisc limit relative to a horizon of minimum-sized packets, so that the
	// programs drop packets before the qdisc does.
	limitFactor = 2
	minPacket   = 60 // bytes
	maxLimit    = 10_000_000
)

// tree returns the qdisc tree that delays the packets.
func (l Shaper) tree(m Mechanism) device.Tree {
	bytes := float64(l.Rate) / 8 * (l.Horizon + l.Horizon/reserveDivisor).Seconds()
	packets := uint32(max(limitFactor*bytes/minPacket, 1000))
	if l.Rate == 0 || l.Follows { // for any number of scopes, or any rate
		packets = maxLimit
	}
	packets = min(packets, maxLimit, tc.FqCapacity())
	if m == Fq {
		return device.Tree{Qdiscs: []tc.Raw{tc.FqRaw(tc.Place{Handle: device.RootHandle}, tc.FqSpec{Limit: packets, FlowLimit: packets, Horizon: max(4*l.Horizon, tc.FqHorizon)})}}
	}
	class, queue := device.RootHandle|1, tc.MakeHandle(uint16(device.RootHandle>>16)+1, 0)
	burst := float64(l.Rate) / 8 * l.classBurst().Seconds()
	return device.Tree{
		Qdiscs:  []tc.Raw{tc.HTBRaw(tc.Place{Handle: device.RootHandle}, 1), tc.PfifoRaw(tc.Place{Parent: class, Handle: queue}, packets)},
		Classes: []tc.Raw{tc.HTBClassRaw(device.RootHandle, class, tc.HTBClass{Rate: l.Rate, Burst: units.ByteSize(burst), Quantum: 10 * frame})},
	}
}

// classBurst returns how far the HTB class may run ahead: at least two frames, since a class with
// less sends none.
func (l Shaper) classBurst() time.Duration {
	return max(l.Burst, minBurst, time.Duration(2*frame*8e9/float64(l.Rate)))
}

// check rejects devices that cannot be shaped.
func (l Shaper) check(header int) error {
	if l.Direction == direction.Ingress && header == 0 {
		return fault.New(fault.Usage, "use mode: police, or limit the underlying device", "%s has no Ethernet header, so its packets cannot pass an ifb", l.Device)
	}
	return nil
}
