// SPDX-License-Identifier: Apache-2.0

package choose

import (
	"encoding/binary"
	"math"
	"math/bits"
	"net/netip"
	"slices"
	"strings"
)

// minRate keeps the quotient in cost within 64 bits.
const minRate = 64_000 // bit/s

// cost returns the position of a port in the weighted rendezvous order of a prefix: the port with
// the least cost is first. With h uniform in (0, 1], -ln(h)/rate is exponentially distributed with
// rate as its parameter, so a port is first with the probability rate/(sum of rates). Integers
// alone keep it equal on all architectures.
func cost(hash, rate uint64) uint64 {
	bits40 := negLog2(hash) // at most 2^38
	quotient, _ := bits.Div64(bits40>>24, bits40<<40, rate)
	return quotient
}

// longerCost returns the cost of a port in the first position, longer hops above the shortest path.
func longerCost(cost uint64, longer, shortest uint16) uint64 {
	for ; longer > 0 && shortest >= manyPorts && cost != math.MaxUint64; longer-- {
		high, low := bits.Mul64(cost, 5)
		if high >= 2 {
			return math.MaxUint64
		}
		cost = high<<63 | low>>1
	}
	return cost
}

// manyPorts is the length of shortest paths that many ports have: of 18 sponsors 5 have the
// shortest path if it has three hops, 2 if it has two, 1 if it has one (docs/results/ix.md).
const manyPorts = 3

// fraction holds -log2(1+i/1024) with 32 bits behind the point.
var fraction = fractions()

// negLog2 returns -log2((hash+1)/2^64) with 32 bits behind the point.
func negLog2(hash uint64) uint64 {
	if hash == ^uint64(0) {
		return 0
	}
	hash++
	zeros := bits.LeadingZeros64(hash)
	mantissa := hash << zeros << 1 // behind the leading 1
	i := mantissa >> 54
	low, high := fraction[i], fraction[i+1]
	part, _ := bits.Mul64(high-low, mantissa<<10)
	return uint64(zeros+1)<<32 - (low + part)
}

// fractions computes log2(1+i/1024) for i = 0 to 1024 by repeated squaring.
func fractions() (table [1025]uint64) {
	for i := range table {
		x := uint64(1024+i) << 52 // 1.63 fixed point without the last bit
		if i == 1024 {
			table[i] = 1 << 32
			continue
		}
		x <<= 1
		for bit := 31; bit >= 0; bit-- {
			high, low := bits.Mul64(x, x) // 2.126
			if high>>63 == 1 {
				table[i] |= 1 << bit
				x = high
			} else {
				x = high<<1 | low>>63
			}
		}
	}
	return table
}

// digest returns the hash of a prefix.
func digest(p netip.Prefix) uint64 {
	address := p.Addr().As16()
	h := mix(binary.BigEndian.Uint64(address[:8]) + 0x9e3779b97f4a7c15*uint64(p.Bits()+1))
	if p.Addr().Is4() {
		h++
	}
	return mix(h ^ binary.BigEndian.Uint64(address[8:]))
}

// seed returns the hash of a port's name (FNV-1a, mixed).
func seed(sponsor, port string) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range []byte(sponsor + "/" + port) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return mix(h)
}

// mix is the finalizer of SplitMix64.
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// Key returns the position of a port in the hash order of a prefix, less is better: the logarithm
// of its cost, in steps of 1/32 of an octave, below 2,048. It depends on names and rate alone.
func (p *Ports) Key(prefix netip.Prefix, port uint16) uint16 {
	c := cost(mix(digest(prefix)^p.seeds[port]), p.ports[port].Rate)
	exponent := bits.Len64(c)
	if exponent <= 5 {
		return uint16(c)
	}
	return uint16(exponent-5)<<5 | uint16(c>>(exponent-6)&31)
}

// Tag returns the number of a port that depends on its names, not on the order of the file: 16 bits
// of their hash. Of ports with equal bits, all but the first by name have the next free number.
func (p *Ports) Tag(port uint16) uint16 { return p.tags[port] }

// tags returns the tags of ports.
func tags(ports []Port, seeds []uint64) []uint16 {
	order := make([]int, len(ports))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		if c := strings.Compare(ports[a].Sponsor, ports[b].Sponsor); c != 0 {
			return c
		}
		return strings.Compare(ports[a].Name, ports[b].Name)
	})
	all, used := make([]uint16, len(ports)), make(map[uint16]bool, len(ports))
	for _, i := range order {
		tag := uint16(seeds[i] >> 48)
		for used[tag] {
			tag++
		}
		all[i], used[tag] = tag, true
	}
	return all
}
