// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"time"

	"weir/core/module"
	"weir/core/policy"
	"weir/internal/direction"
	"weir/internal/units"
	"weir/modules/limit/police"
)

const (
	// proofFlows is the number of TCP connections in a scope, from the rate severalFrom on. Packets
	// of a slower scope are too far apart for more than one.
	proofFlows  = 4
	severalFrom = 10_000_000
	// offeredUDP is the rate of a UDP flow as a multiple of the promise; offeredSlow is that below
	// severalFrom, where the virtual queue fills slowly.
	offeredUDP, offeredSlow = 1.25, 2
	// minPackets is the number of packets in a measurement, so that one packet does not decide it.
	minPackets = 330
)

// Checks returns one check per limited direction.
func (Module) Checks(s policy.Scope) (all []module.Check) {
	s = onThisHost(s)
	t := treatmentOf(s)
	for _, d := range direction.Both {
		if rate := t.of(d); rate != nil {
			all = append(all, rateCheck(s, d, rate.Rate))
		}
	}
	return all
}

const rateCheckName = "rate"

// Judges describes the check.
func (Module) Judges() []module.Judged {
	return []module.Judged{{Check: rateCheckName, Of: "each limited direction of a scope", Looks: "TCP at full speed, UDP above the promised rate, QUIC-like flows, short transfers, and small packets concurrent with TCP",
		Holds: fmt.Sprintf("the received rate differs from the promised rate by %+.0f %% to %+.0f %%, all traffic is charged, and losses stay below their bounds", -100*below, 100*above)}}
}

// rateCheck returns the check of a rate, with TCP at full speed and UDP above the rate.
func rateCheck(s policy.Scope, d Direction, promise units.BitRate) module.Check {
	check := module.Check{
		Name: rateCheckName, Part: d.String(), Direction: d, Promise: promise, Words: fmt.Sprintf("%+.0f %% to %+.0f %%", -100*below, 100*above),
		Needs:  units.BitRate(float64(promise) * (1 + above)),
		Flow:   func(p module.Path) module.Flow { return proofFlow(p, promise) },
		Warmup: proofWarmup(*treatmentOf(s).of(d)), Shortest: shortest(promise),
		Charged: module.Charge{Octets: "bytes", Packets: "packets", Segments: "segments"},
		Paths:   func(module.Path) bool { return true }, Probed: true,
		Counters: []string{"marked", "reduced", "dropped"}, Queued: shaped(s, d) && (d == Egress || s.Selector.Kind == kindNetns),
		Value: valueOf,
		Judge: func(samples []module.Sample, c module.Circumstances) (module.Verdict, string) {
			if !c.Path.Lasting() && c.Path.Protocol != "" {
				return judgeUse(promise, samples, c, tighter(s, d, c.Around))
			}
			return judge(promise, samples, c, tighter(s, d, c.Around))
		},
	}
	check.Charged.AtDevice = shaped(s, d) && s.Selector.Kind == kindInterface
	check.Charged.Blind = blindSpots(s, here())
	switch {
	case check.Queued:
		return check
	case d == Ingress && !shaped(s, d):
		check.Charged.Dropped = "dropped"
	}
	if !treatmentOf(s).Loopback {
		check.Charged.Exempt = "traffic over lo is exempt and not charged; add loopback: true to the scope to limit it"
	}
	return check
}

func proofFlow(p module.Path, promise units.BitRate) module.Flow {
	switch {
	case p.Protocol == module.Short:
		return module.Flow{Size: proofSize(promise)}
	case p.Protocol == module.UDP:
		return module.Flow{Rate: units.BitRate(proofExcess(promise) * float64(promise))}
	case p.Protocol == module.TCP && promise >= severalFrom:
		return module.Flow{Connections: proofFlows}
	}
	return module.Flow{Connections: 1}
}

// A short transfer has as many bytes as the rate carries in a quarter of a second, from minShort to
// maxShort.
const maxShort, minShort = 100_000, 10_000

func proofSize(promise units.BitRate) int {
	return max(minShort, min(maxShort, int(promise/8/4)))
}

// proofExcess returns the rate of a UDP flow as a multiple of the promise.
func proofExcess(promise units.BitRate) float64 {
	if promise < severalFrom {
		return offeredSlow
	}
	return offeredUDP
}

// filling returns the time in which a UDP flow uses the burst of an idle scope and fills its queue.
// Until then more than the rate passes.
func filling(l Limit) time.Duration {
	l = l.WithDefaults()
	return time.Duration(float64(l.Burst+l.Drop) / (proofExcess(l.Rate) - 1))
}

// proofWarmup returns a warmup longer than filling, for TCP to grow too, and 10 minutes at most.
func proofWarmup(l Limit) time.Duration {
	return 300*time.Millisecond + min(filling(l)*3/2+l.WithDefaults().Drop/2, 10*time.Minute)
}

// shortest returns the minimum duration of a measurement, for minPackets full-sized packets.
func shortest(promise units.BitRate) time.Duration {
	return time.Duration(minPackets * float64(police.FrameBytes) * 8e9 / float64(promise))
}

// tighter describes another scope of the same traffic that may allow less; "" for none.
func tighter(s policy.Scope, d Direction, around []policy.Scope) string {
	promise := treatmentOf(s).of(d).Rate
	for _, other := range around {
		if rate := treatmentOf(other).of(d); rate != nil && rate.Rate < promise {
			return fmt.Sprintf("%s with %s", other.Name, rate.Rate)
		}
	}
	if s.Parent != "" {
		return s.Parent + ", shared with its siblings"
	}
	return ""
}
