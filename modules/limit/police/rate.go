// SPDX-License-Identifier: Apache-2.0

package police

import (
	"fmt"
	"time"

	"weir/internal/direction"
	"weir/internal/units"
)

// Direction is the direction of traffic at the sockets of a scope.
type Direction = direction.Direction

const (
	Egress  = direction.Egress
	Ingress = direction.Ingress
)

// Directions lists both directions.
var Directions = direction.Both

const (
	// MinRate and MaxRate bound the rate of a scope.
	MinRate units.BitRate = 64_000
	MaxRate units.BitRate = 400_000_000_000
	// EthernetHeader is the default overhead of a wire packet in addition to its IP packet, in
	// bytes. Limits count the bytes that an interface counts: no preamble, FCS or gap.
	EthernetHeader = 14
	// FrameBytes is the size of a full-sized Ethernet frame.
	FrameBytes = int(limitLimitFormatLIMIT_FRAME)
)

// Limit is the limit of one direction of a scope. The zero value of each field except Rate is a
// default that scales with the rate.
type Limit struct {
	Rate units.BitRate `json:"rate"` // bit/s
	// Min and Weight are for a scope with a parent (DataPlane.SetParent), where Weight is 1 or
	// more: its share of the parent's rate is Min, and the rest by weight, up to Rate. The minima
	// of all siblings must fit into the parent's rate.
	Min    units.BitRate `json:"min,omitempty"`
	Weight int           `json:"weight,omitempty"`
	// Burst is the traffic that an idle scope may send at line rate, as time at Rate. ECN marks
	// and reductions begin at Mark, drops at Drop. Reserve is the end of the virtual queue for
	// packets up to SmallBytes.
	Burst time.Duration `json:"burst,omitempty"`
	Mark  time.Duration `json:"mark,omitempty"`
	Drop  time.Duration `json:"drop,omitempty"`
	Mode  string        `json:"mode,omitempty"` // ModeShape or ModePolice; "" is ModePolice
	// Shared makes the rate follow a shared limit of a fleet, with Rate as the lowest.
	Shared   Shared        `json:"shared,omitzero"`
	Reserve  time.Duration `json:"-"`
	Overhead int           `json:"-"` // bytes per wire packet in addition to the IP packet; 0 is EthernetHeader
	Shadow   bool          `json:"-"` // count only, change no packet
	Classic  bool          `json:"-"` // no explicit-rate pacing: the algorithm of the LPC 2018 talk
	Loopback bool          `json:"-"` // charge loopback traffic too
}

// Shared is the claim of a limit in a shared limit of a fleet. The zero value is none.
type Shared struct {
	Name   string        `json:"name"`
	Min    units.BitRate `json:"min,omitempty"` // bit/s, also without contact
	Max    units.BitRate `json:"max,omitempty"` // bit/s; 0 for none
	Weight int           `json:"weight"`
}

// String describes the claim.
func (s Shared) String() string {
	text := "shared " + s.Name
	if s.Min > 0 {
		text += fmt.Sprintf(" (min %s)", s.Min)
	}
	if s.Max > 0 {
		text += fmt.Sprintf(" (max %s)", s.Max)
	}
	if s.Weight > 1 {
		text += fmt.Sprintf(" (weight %d)", s.Weight)
	}
	return text
}

// Modes of a limit: a policer marks, rejects or drops packets beyond the rate, a shaper delays
// them.
const (
	ModePolice = "police"
	ModeShape  = "shape"
)

// maxBurst is a hundred times the default at MinRate. An idle scope sends a burst at line rate.
const maxBurst = time.Minute

// threshold is a threshold of the virtual queue. Its default is the transmission time of a number
// of full-sized frames, and min at least.
type threshold struct {
	name   string
	of     func(*Limit) *time.Duration
	min    time.Duration
	frames uint32
}

// thresholds returns the thresholds in the order in which Limit.String prints them.
func thresholds() []threshold {
	return []threshold{
		{"burst", func(l *Limit) *time.Duration { return &l.Burst }, minBurst, tunables.BurstFrames},
		{"mark", func(l *Limit) *time.Duration { return &l.Mark }, minMark, tunables.MarkFrames},
		{"drop", func(l *Limit) *time.Duration { return &l.Drop }, minDrop, tunables.DropFrames},
		{"reserve", func(l *Limit) *time.Duration { return &l.Reserve }, minReserve, tunables.ReserveFrames},
	}
}

// String returns the rate, the share of a parent and the given thresholds.
func (l Limit) String() string {
	text := l.Rate.String()
	if l.Shared.Name != "" {
		text = l.Shared.String()
	}
	if l.Min != 0 {
		text += fmt.Sprintf(" (min %s)", l.Min)
	}
	if l.Weight > 1 { // 1 is the default
		text += fmt.Sprintf(" (weight %d)", l.Weight)
	}
	if l.Mode == ModeShape {
		text += " (shaped)"
	}
	for _, t := range thresholds() {
		if value := *t.of(&l); value != 0 {
			text += fmt.Sprintf(" (%s %s)", t.name, value)
		}
	}
	return text
}

// duration returns the transmission time of a number of bytes.
func (l Limit) duration(bytes int) time.Duration {
	return time.Duration(float64(bytes) * 8e9 / float64(l.Rate))
}

// WithDefaults fills in the thresholds. At 1 Gbit/s they are 1.2, 2 and 10 ms; at low rates they
// grow with the time of full-sized packets, since a queue shorter than a packet drops all packets.
func (l Limit) WithDefaults() Limit {
	for _, t := range thresholds() {
		if value := t.of(&l); *value == 0 {
			floor := t.min
			if l.Mode == ModeShape && value == &l.Drop {
				floor = minHorizon
			}
			*value = max(floor, l.duration(int(t.frames)*FrameBytes))
		}
	}
	if l.Overhead == 0 {
		l.Overhead = EthernetHeader
	}
	return l
}

// SmallBytes is the size up to which a packet counts as small; see limit.h.
func SmallBytes() uint32 { return tunables.SmallOctets }

// Check returns an error for an invalid limit, with defaults filled in.
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
	case l.Burst > maxBurst:
		return fmt.Errorf("burst %s is above a minute, for which an idle scope would be unlimited", l.Burst)
	case l.Drop > time.Minute:
		return fmt.Errorf("drop threshold %s is above a minute", l.Drop)
	case l.Mark >= l.Drop-l.Reserve:
		return fmt.Errorf("mark threshold %s is not below the drop threshold %s less the reserve %s", l.Mark, l.Drop, l.Reserve)
	}
	return nil
}

// config returns the settings of the data plane, with everything that can be computed in advance.
func (l Limit) config(of Direction) limitLimitConfig {
	l = l.WithDefaults()
	c := limitLimitConfig{
		Cost:        Cost(l.Rate),
		Rate:        bytesPerSecond(l.Rate),
		MaxFairRate: maxFairRate(bytesPerSecond(l.Rate), of),
		BurstNs:     uint64(l.Burst),
		MarkNs:      uint64(l.Mark),
		LargeNs:     uint64(l.Drop - l.Reserve),
		DropNs:      uint64(l.Drop),
		CeilingNs:   uint64(tunables.CeilingDrops) * uint64(l.Drop),
		Flags:       limitLimitFlagsLIMIT_ENFORCED,
		Overhead:    uint32(l.Overhead),
		Min:         bytesPerSecond(l.Min),
		MinCost:     Cost(l.Min),
		Weight:      uint32(l.Weight),
		Quota:       l.quota(),
	}
	if of == Ingress {
		c.Cost += c.Cost >> ingressSlackShift
	}
	for flag, set := range map[limitLimitFlags]bool{limitLimitFlagsLIMIT_SHADOW: l.Shadow,
		limitLimitFlagsLIMIT_CLASSIC: l.Classic, limitLimitFlagsLIMIT_LOOPBACK: l.Loopback} {
		if set {
			c.Flags |= flag
		}
	}
	return c
}

// bytesPerSecond converts a rate to byte/s.
func bytesPerSecond(rate units.BitRate) uint64 { return uint64(rate) / 8 }

// Cost returns the ns that one byte takes at the rate, times 2^LIMIT_COST_SHIFT; 0 without a rate.
func Cost(rate units.BitRate) uint64 {
	if rate == 0 {
		return 0
	}
	return uint64(8e9 / float64(rate) * (1 << limitLimitFormatLIMIT_COST_SHIFT))
}

// maxFairRate is max_fair_rate in fair.h at a rate in byte/s.
func maxFairRate(rate uint64, of Direction) uint64 {
	target := rate*uint64(tunables.TargetShare)>>10 + 1
	if of == Ingress {
		return target << tunables.IngressHeadroomShift
	}
	return target + target>>tunables.HeadroomShift
}

// quota returns the bytes that a socket may prepay. Scopes with siblings, since their rate varies,
// and classic ones charge each packet.
func (l Limit) quota() uint32 {
	if l.Weight > 0 || l.Classic {
		return 0
	}
	return uint32(min(float64(l.Rate)/8*l.Burst.Seconds()/quotaParts, maxQuota))
}

// A compile error means that the numbers of directions differ from limit.h.
const (
	_ = -uint(Egress ^ Direction(limitLimitDirectionLIMIT_EGRESS))
	_ = -uint(Ingress ^ Direction(limitLimitDirectionLIMIT_INGRESS))
)
