package limit

import (
	"fmt"
	"time"

	"weir/internal/direction"
	"weir/internal/units"
)

// Direction of traffic, as the cgroup sees it.
type Direction = direction.Direction

const (
	Egress  = direction.Egress
	Ingress = direction.Ingress
)

// Directions lists both.
var Directions = direction.Both

const (
	// MinRate and MaxRate bound what a scope can be limited to.
	MinRate units.BitRate = 64_000
	MaxRate units.BitRate = 400_000_000_000
	// EthernetHeader is the default overhead of a wire packet beyond its IP packet, in octets. Limits count what an
	// interface counts: neither preamble nor FCS nor gap.
	EthernetHeader = 14
	packet         = 1514 // octets of a full-sized Ethernet frame without FCS
)

// Limit is what one direction of a scope may use. The zero value of every field but Rate is a default that scales with
// the rate.
type Limit struct {
	Rate units.BitRate
	// Min and Weight are for a scope with a parent (DataPlane.SetParent), which has Weight 1 or more: it may use Min, and
	// beyond that its part of the parent's rate by weight, Rate at most. Min of all siblings must fit into the parent's rate.
	Min    units.BitRate
	Weight int
	// Burst is how far an idle scope may run ahead, Mark where ECN marks and reductions begin, Drop where packets are
	// refused; Reserve is the last part of the virtual queue, kept for packets of up to 128 octets.
	Burst, Mark, Drop, Reserve time.Duration
	Overhead                   int  // octets per wire packet beyond the IP packet; 0 is EthernetHeader
	Shadow                     bool // count what would be done, do nothing
	Classic                    bool // without explicit-rate pacing: the algorithm of the LPC 2018 talk
	Loopback                   bool // charge loopback traffic too
}

// duration is the time that so many octets take at the rate.
func (l Limit) duration(octets int) time.Duration {
	return time.Duration(float64(octets) * 8e9 / float64(l.Rate))
}

// WithDefaults fills in the thresholds. At 1 Gbit/s they are 1.2, 2 and 10 ms; at low rates they grow to what some
// packets of full size need, since a queue shorter than a packet would refuse every one.
func (l Limit) WithDefaults() Limit {
	set := func(value *time.Duration, least time.Duration, packets int) {
		if *value == 0 {
			*value = max(least, l.duration(packets*packet))
		}
	}
	set(&l.Burst, 1200*time.Microsecond, 4)
	set(&l.Mark, 2*time.Millisecond, 8)
	set(&l.Drop, 10*time.Millisecond, 40)
	set(&l.Reserve, 200*time.Microsecond, 2)
	if l.Overhead == 0 {
		l.Overhead = EthernetHeader
	}
	return l
}

// Check says what is wrong with the limit, defaults filled in.
func (l Limit) Check() error {
	l = l.WithDefaults()
	switch {
	case l.Rate < MinRate || l.Rate > MaxRate:
		return fmt.Errorf("rate %s is outside %s to %s", l.Rate, MinRate, MaxRate)
	case l.Weight < 0 || l.Weight > MaxWeight:
		return fmt.Errorf("weight %d is outside 0 to %d", l.Weight, MaxWeight)
	case l.Min > 0 && l.Weight == 0:
		return fmt.Errorf("minimum %s has no weight: only a scope with a parent has a minimum", l.Min)
	case l.Min > l.Rate:
		return fmt.Errorf("minimum %s is above the rate %s", l.Min, l.Rate)
	case l.Burst < 0 || l.Mark < 0 || l.Reserve < 0 || l.Overhead < 0:
		return fmt.Errorf("a threshold is negative")
	case l.Drop > time.Minute:
		return fmt.Errorf("drop threshold %s is above a minute", l.Drop)
	case l.Mark >= l.Drop-l.Reserve:
		return fmt.Errorf("mark threshold %s is not below the drop threshold %s less the reserve %s", l.Mark, l.Drop, l.Reserve)
	}
	return nil
}

// config is the limit as the data plane reads it.
func (l Limit) config() limitLimitConfig {
	l = l.WithDefaults()
	flags := uint32(limitEnforced)
	for flag, set := range map[uint32]bool{limitShadow: l.Shadow, limitClassic: l.Classic, limitLoopback: l.Loopback} {
		if set {
			flags |= flag
		}
	}
	cost := func(rate units.BitRate) uint64 {
		if rate == 0 {
			return 0
		}
		return uint64(8e9 / float64(rate) * (1 << costShift))
	}
	return limitLimitConfig{
		Cost:      cost(l.Rate),
		Min:       uint64(l.Min) / 8,
		MinCost:   cost(l.Min),
		Weight:    uint32(l.Weight),
		Rate:      uint64(l.Rate) / 8,
		BurstNs:   uint64(l.Burst),
		MarkNs:    uint64(l.Mark),
		DropNs:    uint64(l.Drop),
		ReserveNs: uint64(l.Reserve),
		Flags:     flags,
		Quota:     l.quota(),
		Overhead:  uint32(l.Overhead),
	}
}

// ingressSlack makes a packet dearer at ingress by 1/256: where packets are dropped, traffic takes all that the virtual queue
// admits, and what the queue's length allows more in some seconds must not bring it above the limit.
const ingressSlack = 8

// batch is how many octets a socket may be charged for in advance: a sixteenth of the burst. Scopes that share a parent, whose
// rate moves, and those of the classic algorithm charge every packet.
func (l Limit) quota() uint32 {
	if l.Weight > 0 || l.Classic {
		return 0
	}
	return uint32(min(float64(l.Rate)/8*l.Burst.Seconds()/16, maxQuota))
}

// maxQuota keeps credit below what a processor sends in a tick.
const maxQuota = 1 << 20

// The values of limit.h that bpf2go does not generate.
const (
	costShift     = 24
	unitShift     = 12
	limitEnforced = 1
	limitShadow   = 2
	limitClassic  = 4
	limitLoopback = 8
)
