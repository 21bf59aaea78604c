// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"fmt"
	"math"
	"time"

	"weir/internal/fault"
	"weir/internal/units"
)

// Distribution names how netem's delay varies around its mean.
type Distribution string

const (
	Uniform Distribution = ""       // over ±Jitter
	Normal  Distribution = "normal" // standard deviation Jitter, cut at ±3.7 of them
	Pareto  Distribution = "pareto" // Pareto with shape 3 from -0.67 to 4 times Jitter, as in iproute2
)

// Loss is how netem loses packets: with Probability each, or by the two-state Gilbert-Elliott chain
// if GE is set. The chain steps once per packet, good to bad with P and bad to good with R, and
// loses with GoodLoss and BadLoss.
type Loss struct {
	Probability       float64
	GE                bool
	P, R              float64
	GoodLoss, BadLoss float64 // 1-k and 1-h of Hasslinger and Hohlfeld
}

// NetemSpec holds the options of netem. Shares are between 0 and 1.
type NetemSpec struct {
	Limit        uint32        // packets in the queue, including delayed ones; 0 means 1000
	Rate         units.BitRate // 0 does not limit
	Overhead     int32         // bytes per packet at Rate beyond its own: 24 for Ethernet
	Delay        time.Duration
	Jitter       time.Duration
	Distribution Distribution
	Loss         Loss
	Duplicate    float64
	Corrupt      float64 // one bit inverted
	Reorder      float64 // sent at once instead of delayed; needs a Delay
	ECN          bool    // lose ECN-capable packets by marking them
	// Seed makes the choices repeatable (Linux 6.6 or newer; older kernels ignore it). 0 lets the
	// kernel choose.
	Seed uint64
}

// Attributes of netem's options (linux/pkt_sched.h).
const (
	netemDelayDist = 2
	netemReorder   = 3
	netemCorrupt   = 4
	netemLoss      = 5
	netemRate      = 6
	netemECN       = 7
	netemRate64    = 8
	netemLatency64 = 10
	netemJitter64  = 11
	netemSeed      = 14

	netemLossGE = 2
)

// AddNetem makes a netem qdisc. Its rate and delay are exact to the kernel's clock and hold for
// single packets: the devices that feed it must not send super-packets. Jitter without a Rate lets
// packets overtake each other.
func (c *Conn) AddNetem(dev string, at Place, spec NetemSpec) error {
	options, err := spec.encode()
	if err != nil {
		return fmt.Errorf("add netem to %s: %w", dev, err)
	}
	return c.Add("netem", dev, at, options)
}

// encode writes struct tc_netem_qopt and the attributes behind it.
func (s NetemSpec) encode() ([]byte, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	limit, gap := s.Limit, uint32(0)
	if limit == 0 {
		limit = 1000
	}
	if s.Reorder > 0 {
		gap = 1 // netem chooses by chance only among every gap-th packet
	}
	// Latency and jitter in this structure are in ticks of 64 ns; the 64-bit attributes below
	// overrule them.
	b := words(0, limit, share(s.Loss.Probability), gap, share(s.Duplicate), 0)
	b = attribute(b, netemLatency64, long(uint64(s.Delay)))
	b = attribute(b, netemJitter64, long(uint64(s.Jitter)))
	if s.Distribution != Uniform && s.Jitter > 0 {
		b = attribute(b, netemDelayDist, delayTable(s.Distribution))
	}
	if s.Reorder > 0 {
		b = attribute(b, netemReorder, words(share(s.Reorder), 0))
	}
	if s.Corrupt > 0 {
		b = attribute(b, netemCorrupt, words(share(s.Corrupt), 0))
	}
	if s.Loss.GE {
		// The kernel takes h, the chance to survive the bad state, but 1-k, the chance to be lost
		// in the good one.
		chain := words(share(s.Loss.P), share(s.Loss.R), share(1-s.Loss.BadLoss), share(s.Loss.GoodLoss))
		b = attribute(b, netemLoss|nested, attribute(nil, netemLossGE, chain))
	}
	if s.ECN {
		b = attribute(b, netemECN, words(1))
	}
	if octets := uint64(s.Rate) / 8; octets > 0 {
		if octets > math.MaxUint32 {
			b = attribute(b, netemRate64, long(octets))
		}
		b = attribute(b, netemRate, words(uint32(min(octets, math.MaxUint32)), uint32(s.Overhead), 0, 0))
	}
	if s.Seed != 0 {
		b = attribute(b, netemSeed, long(s.Seed))
	}
	return b, nil
}

func (s NetemSpec) check() error {
	usage := func(format string, args ...any) error {
		return fault.New(fault.Usage, "correct the link's description", format, args...)
	}
	for name, value := range map[string]float64{
		"loss": s.Loss.Probability, "p": s.Loss.P, "r": s.Loss.R, "1-k": s.Loss.GoodLoss, "1-h": s.Loss.BadLoss,
		"duplicate": s.Duplicate, "corrupt": s.Corrupt, "reorder": s.Reorder,
	} {
		if !(value >= 0 && value <= 1) {
			return usage("%s %v is not between 0 and 1", name, value)
		}
	}
	switch {
	case s.Delay < 0 || s.Jitter < 0:
		return usage("a delay or jitter is negative")
	case s.Reorder > 0 && s.Delay == 0:
		return usage("reordering needs a delay: a packet overtakes those that wait")
	case s.Rate > 0 && s.Rate < 8:
		return usage("rate %d bit/s is below one octet per second", s.Rate)
	case s.Loss.GE && s.Loss.Probability > 0:
		return usage("loss is either independent or Gilbert-Elliott")
	case s.Distribution != Uniform && s.Distribution != Normal && s.Distribution != Pareto:
		return usage("distribution %q is not known", s.Distribution)
	}
	return nil
}

// share scales a probability to netem's 32 bits.
func share(p float64) uint32 { return uint32(math.Round(p * math.MaxUint32)) }
