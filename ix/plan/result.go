// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"weir/ix/config"
)

// Daemons are the bytes of a path in the routing tables of three daemons, measured with 1.04
// million paths of 18 sponsors (docs/results/ix.md).
var Daemons = map[string]int64{"bird": 119, "frr": 411, "openbgpd": 276}

// headroom is the part of a maximum-prefix limit that stays free for growth: a quarter.
func headroom(paths int) int {
	limit := paths + paths/4
	step := 1
	for step*100 <= limit {
		step *= 10
	}
	return (limit + step - 1) / step * step
}

// members fills the members in file order.
func (p *Plan) members(e *config.Exchange, all []*group, tallies []*tally) {
	p.Members = make([]Member, len(e.Members))
	for i, g := range all {
		t := tallies[i]
		after := t.after[0] + t.after[1]
		prefixes := t.prefixes[0] + t.prefixes[1]
		m := Member{Before: t.before, After: after, Limit: g.paths, Prefixes: Families{t.prefixes[0], t.prefixes[1]}, Omitted: t.omitted,
			Max: Families{headroom(t.after[0]), headroom(t.after[1])}, Memory: map[string]Beside{},
			Length: ratio(t.lengths, prefixes), Shortest: ratio(t.shortest, prefixes), Distinct: ratio(t.seconds, t.chosen)}
		for name, bytes := range Daemons {
			m.Memory[name] = Beside{int64(t.before) * bytes, int64(after) * bytes}
		}
		for _, n := range g.members {
			m.Name = e.Members[n].Name
			p.Members[n] = m
		}
	}
}

func ratio(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// shares adds the loads of all members and returns them as shares of their sum.
func shares(ports int, all []*group, tallies []*tally, load func(*tally) []uint64) []float64 {
	out, sum := make([]float64, ports), 0.0
	for i, g := range all {
		for port, n := range load(tallies[i]) {
			part := float64(n) * float64(len(g.members))
			out[port] += part
			sum += part
		}
	}
	for port := range out {
		if sum > 0 {
			out[port] /= sum
		}
	}
	return out
}

// evenShares returns the share of each port in the sum of all rates.
func evenShares(e *config.Exchange) (even []float64) {
	rates := 0.0
	for _, port := range e.Ports() {
		rates += float64(port.Rate)
	}
	for _, port := range e.Ports() {
		even = append(even, float64(port.Rate)/rates)
	}
	return even
}

// busiest returns the highest share, relative to the even one.
func busiest(shares, even []float64) (most float64) {
	for port := range shares {
		most = max(most, shares[port]/even[port])
	}
	return most
}

// ports fills the ports in file order, and the spread.
func (p *Plan) ports(e *config.Exchange, all []*group, tallies []*tally) {
	ports, even := e.Ports(), evenShares(e)
	first := shares(len(ports), all, tallies, func(t *tally) []uint64 { return t.first })
	every := shares(len(ports), all, tallies, func(t *tally) []uint64 { return t.all })
	today := shares(len(ports), all, tallies, func(t *tally) []uint64 { return t.today })
	for i, port := range ports {
		p.Ports = append(p.Ports, Port{Sponsor: port.Sponsor, Port: port.Name, Rate: port.Rate, Share: first[i], All: every[i], Today: today[i], Load: first[i] / even[i]})
	}
	p.Spread = Spread{busiest(first, even), busiest(every, even), busiest(today, even)}
}

// fail fills the effects of failures. A single failure has details of members and ports.
func (p *Plan) fail(e *config.Exchange, all []*group, tallies []*tally, scenarios []scenario, single bool) {
	even := evenShares(e)
	for n, s := range scenarios {
		f := Failure{Name: s.name}
		for i, g := range all {
			v, members := tallies[i].failures[n], len(g.members)
			f.Lost += v.lost * members
			f.Announced += v.announced * members
			f.Displaced += v.displaced * members
			f.Dark += v.dark * members
			for _, member := range g.members {
				if single {
					p.Members[member].Failure = &MemberFailure{v.lost, v.announced, v.displaced, v.moved, v.dark}
				}
			}
		}
		first := shares(len(even), all, tallies, func(t *tally) []uint64 { return sum(t.first, t.failures[n].first) })
		every := shares(len(even), all, tallies, func(t *tally) []uint64 { return sum(t.all, t.failures[n].all) })
		f.First, f.All = busiest(first, even), busiest(every, even)
		if !single {
			p.Failures = append(p.Failures, f)
			continue
		}
		for i := range p.Ports {
			p.Ports[i].Failure, p.Ports[i].FailureAll = &first[i], &every[i]
		}
		p.Without = &f
	}
}

// sum adds changes, which may be negative modulo 2^64, to loads.
func sum(loads, changes []uint64) []uint64 {
	out := slices.Clone(loads)
	addAll(out, changes)
	return out
}
