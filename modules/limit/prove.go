// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"time"

	"weir/core/module"
	"weir/core/policy"
	"weir/internal/units"
)

const (
	// proofFlows is how many TCP connections share a scope; at rates below severalFrom there is
	// one, whose packets are far apart.
	proofFlows  = 4
	severalFrom = 10_000_000
	// offeredUDP is what a UDP flow sends, as a multiple of the promise; offeredSlow at rates below
	// severalFrom, where a virtual queue takes long to fill, and more costs nothing.
	offeredUDP, offeredSlow = 1.25, 2
	// fewestPackets keeps one packet more or less from deciding: a measurement must hold so many.
	fewestPackets = 330
)

// Checks are the rates that a scope was promised.
func (Module) Checks(s policy.Scope) (all []module.Check) {
	t := treatmentOf(s)
	for _, d := range Directions {
		if rate := t.of(d); rate != nil {
			all = append(all, rateCheck(s, d, rate.Rate))
		}
	}
	return all
}

const rateCheckName = "rate"

// Judges describes the check.
func (Module) Judges() []module.Judged {
	return []module.Judged{{Check: rateCheckName, Of: "each direction of a scope that is limited", Looks: "TCP as fast as it goes, UDP above the promise, flows like QUIC's, and short transfers; small packets beside TCP",
		Holds: fmt.Sprintf("what arrives is the promised rate, %+.0f %% to %+.0f %%, all of it is charged, and users bear what is dropped", -100*below, 100*above)}}
}

// rateCheck tests that what passes is the rate, by TCP as it comes and UDP above the rate.
func rateCheck(s policy.Scope, d Direction, promise units.BitRate) module.Check {
	check := module.Check{
		Name: rateCheckName, Part: d.String(), Direction: d, Promise: promise, Words: fmt.Sprintf("%+.0f %% to %+.0f %%", -100*below, 100*above),
		Needs:  units.BitRate(float64(promise) * (1 + above)),
		Flow:   func(p module.Path) module.Flow { return proofFlow(p, promise) },
		Warmup: proofWarmup(*treatmentOf(s).of(d)), Shortest: shortest(promise),
		Charged: module.Charge{Octets: "bytes", Packets: "packets", Segments: "segments"},
		Paths:   func(module.Path) bool { return true }, Probed: true,
		Counters: []string{"marked", "reduced", "refused"}, Queued: delays(s, d) && (d == Egress || s.Selector.Kind == kindNetns),
		Value: valueOf,
		Judge: func(samples []module.Sample, c module.Circumstances) (module.Verdict, string) {
			if !c.Path.Lasting() && c.Path.Protocol != "" {
				return judgeUse(promise, samples, c, tighter(s, d, c.Around))
			}
			return judge(promise, samples, c, tighter(s, d, c.Around))
		},
	}
	check.Charged.AtDevice = delays(s, d) && s.Selector.Kind == kindInterface
	switch {
	case check.Queued:
		return check
	case d == Ingress && !delays(s, d):
		check.Charged.Dropped = "refused"
	}
	if !treatmentOf(s).Loopback {
		check.Charged.Exempt = "traffic over lo is exempt, and not charged; loopback: true in the scope would cover it"
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

// A short transfer is of largestShort octets, at low rates of what takes a quarter of a second, and
// of smallestShort at least.
const largestShort, smallestShort = 100_000, 10_000

func proofSize(promise units.BitRate) int {
	return max(smallestShort, min(largestShort, int(promise/8/4)))
}

// proofExcess is what a UDP flow sends, as a multiple of the promise.
func proofExcess(promise units.BitRate) float64 {
	if promise < severalFrom {
		return offeredSlow
	}
	return offeredUDP
}

// filling is how long a UDP flow takes to use the burst of a scope that was idle and to fill its
// virtual queue: until then more than the rate passes.
func filling(l Limit) time.Duration {
	l = l.WithDefaults()
	return time.Duration(float64(l.Burst+l.Drop) / (proofExcess(l.Rate) - 1))
}

// proofWarmup is longer than that, for TCP to grow as well; at a queue of a minute it is as long as
// the longest measurement.
func proofWarmup(l Limit) time.Duration {
	return 300*time.Millisecond + min(filling(l)*3/2+l.WithDefaults().Drop/2, 10*time.Minute)
}

// shortest is the least duration of a measurement that says something about a rate.
func shortest(promise units.BitRate) time.Duration {
	return time.Duration(fewestPackets * float64(frameOctets) * 8e9 / float64(promise))
}

// tighter names a scope that the traffic of s belongs to as well and that may allow less; "" for
// none.
func tighter(s policy.Scope, d Direction, around []policy.Scope) string {
	promise := treatmentOf(s).of(d).Rate
	for _, other := range around {
		if rate := treatmentOf(other).of(d); rate != nil && rate.Rate < promise {
			return fmt.Sprintf("%s with %s", other.Name, rate.Rate)
		}
	}
	if s.Parent != "" {
		return s.Parent + ", which its siblings may use at the same time"
	}
	return ""
}
