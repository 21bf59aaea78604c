// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"

	"weir/internal/direction"
	"weir/internal/fault"
	"weir/internal/units"
	"weir/kernel/device"
	"weir/kernel/probe"
	"weir/kernel/tc"
)

// Line is one limit: of a direction of a device, or of a scope, whose traffic is delayed where it
// leaves this network namespace.
type Line struct {
	Device    string // "" for a scope's
	Index     int    // the device's, or the scope's number
	Direction direction.Direction
	Namespace string        // path of the network namespace that the scope is, which is charged at its devices' ends here; "" for others
	From      string        // the same of the scope that the device leads to; "" for others
	Nested    bool          // its packets wait in the tree that another room has at the device; of one without a rate
	Parent    uint32        // Key of the line that is charged too; 0 for none
	Weight    int           // of the line's part of it; 0 is 1
	Rate      units.BitRate // bit/s of wire octets
	Cost      uint64        // ns per octet at that rate, times 2^24
	// Burst is how far an idle line may run ahead, Mark the delay from which packets are marked,
	// Horizon the delay beyond which they are dropped.
	Burst, Mark, Horizon time.Duration
	SmallOctets          uint32 // on the wire; packets of no more are the last to be dropped
}

// MaxLines is how many lines there can be.
const MaxLines = 1024

// scopeKeys is the first key of lines of scopes, which have two each; indices of devices are below.
const scopeKeys = 1 << 31

func keyOf(scope int, d direction.Direction) uint32 {
	return scopeKeys | uint32(scope)<<1 | uint32(d)
}

// Key is the line's key where others may name it as their parent: not for what a device receives,
// which is charged at an ifb that is yet to be made.
func (l Line) Key() uint32 {
	switch {
	case l.Device == "":
		return keyOf(l.Index, l.Direction)
	case l.Direction == direction.Egress:
		return uint32(l.Index)
	}
	return 0
}

// Mechanism is where packets wait.
type Mechanism string

const (
	Fq  Mechanism = "fq"  // until each one's departure time
	HTB Mechanism = "htb" // in a class at the same rate
)

// ifbWorks remembers that the kernel's ifb does: it is asked for every line. A refusal may be for a
// passing reason, as a host without room for another network namespace.
var ifbWorks atomic.Bool

func ifb() error {
	if ifbWorks.Load() {
		return nil
	}
	err := probe.IFB()
	ifbWorks.Store(err == nil)
	return err
}

// Available is the best mechanism that this kernel has for a direction. The error says what is
// missing and how to get it.
func Available(d direction.Direction) (Mechanism, error) {
	if d == direction.Ingress {
		if err := ifb(); err != nil {
			return "", fmt.Errorf("delay what is received: %w", err)
		}
	}
	err := probe.Qdisc("fq")
	if err == nil {
		return Fq, nil
	}
	if probe.Qdisc("htb") == nil && probe.Qdisc("pfifo") == nil {
		return HTB, nil
	}
	return "", fmt.Errorf("delay packets: %w", err)
}

// maxPace is the highest rate, octet/s, that a socket can be paced at.
const maxPace = 1<<32 - 2

// These follow from the thresholds.
const (
	chanceShift = 48 // DELAY_CHANCE_SHIFT
	// earlyMarks is how many mark thresholds of delay a packet must meet before it is dropped by
	// chance, fullMarks how many beyond the mark threshold have one of notifyDivisor packets notified.
	earlyMarks, fullMarks, notifyDivisor = 5, 10, 4
	earlyDivisor                         = 16 // one of so many is dropped early at the horizon
	standingDivisor                      = 2  // of the early threshold, from which TCP whose queue stands is dropped
	reserveDivisor                      = 4  // reserves of small packets in the horizon
)

func (l Line) config(by Mechanism) shapeShaperConfig {
	if l.Rate == 0 { // it leads to another line
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
		SmallBytes: l.SmallOctets,
		Weight:      uint32(max(l.Weight, 1)),
		Rate:        uint32(min(l.Rate/8, maxPace)),
		Parent:      l.Parent,
		SlotShift:   l.slotShift(),
	}
	c.Unit = max(1, 1<<shapeShaperFormatSHAPER_UNIT_SHIFT/c.Weight)
	if by == Fq {
		c.Flags |= shapeShaperFlagsSHAPER_STAMP
		c.StandingNs = uint64(early) / standingDivisor // without fair parts a flow waits for others too
	}
	if l.Direction == direction.Ingress && l.Device != "" {
		c.Flags |= shapeShaperFlagsSHAPER_RECEIVED
	}
	return c
}

// interval is how long flows are counted for: so many full-sized frames, that each of many has some
// in it.
func (l Line) interval() time.Duration {
	const frames, least, most = 128, 20 * time.Millisecond, time.Second
	return min(max(time.Duration(frames*frame*8e9/float64(l.Rate)), least), most)
}

// slotShift is the least for which slots reach beyond the latest departure, one that has begun at
// either end.
func (l Line) slotShift() uint32 {
	latest := uint64(l.Horizon + l.Horizon/reserveDivisor)
	return uint32(bits.Len64(latest / uint64(shapeShaperFormatSHAPER_SLOTS-2)))
}

const (
	// minBurst of an HTB class makes up for a timer that is late, after which a class has lost
	// what it could not keep.
	minBurst = 5 * time.Millisecond
	frame      = 1514 // octets
	// limitFactor is how much more than the horizon's minPacket packets the qdisc has room for: it is
	// the programs that drop.
	limitFactor = 2
	minPacket   = 60 // octets
	maxLimit   = 10_000_000
)

// tree is where the packets wait.
func (l Line) tree(by Mechanism) device.Tree {
	octets := float64(l.Rate) / 8 * (l.Horizon + l.Horizon/reserveDivisor).Seconds()
	packets := uint32(max(limitFactor*octets/minPacket, 1000))
	if l.Rate == 0 { // of scopes that are told there
		packets = maxLimit
	}
	packets = min(packets, maxLimit, tc.FqRoom())
	if by == Fq {
		return device.Tree{Qdiscs: []tc.Raw{tc.FqRaw(tc.Place{Handle: device.RootHandle}, tc.FqSpec{Limit: packets, FlowLimit: packets, Horizon: max(4*l.Horizon, tc.FqHorizon)})}}
	}
	class, queue := device.RootHandle|1, tc.MakeHandle(uint16(device.RootHandle>>16)+1, 0)
	burst := float64(l.Rate) / 8 * l.classBurst().Seconds()
	return device.Tree{
		Qdiscs:  []tc.Raw{tc.HTBRaw(tc.Place{Handle: device.RootHandle}, 1), tc.PfifoRaw(tc.Place{Parent: class, Handle: queue}, packets)},
		Classes: []tc.Raw{tc.HTBClassRaw(device.RootHandle, class, tc.HTBClass{Rate: l.Rate, Burst: units.ByteSize(burst), Quantum: 10 * frame})},
	}
}

// classBurst is how far the HTB class may run ahead: a frame's time at least, without which it
// sends none.
func (l Line) classBurst() time.Duration {
	return max(l.Burst, minBurst, time.Duration(2*frame*8e9/float64(l.Rate)))
}

// check refuses what cannot be delayed.
func (l Line) check(header int) error {
	if l.Direction == direction.Ingress && header == 0 {
		return fault.New(fault.Usage, "leave by: delay out, or limit the device that it runs over", "%s has no Ethernet header, and its packets cannot go through an ifb", l.Device)
	}
	return nil
}
