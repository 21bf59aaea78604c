// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Load is an open loop of transfers: they begin at random, independently of earlier ones.
type Load struct {
	Sizes     Sizes
	PerSecond float64       // mean number of transfers that begin in a second (a Poisson process)
	Drain     time.Duration // time at the end in which no transfer begins
	Seed      uint64
	Path      Path
}

// Arrival is a due transfer.
type Arrival struct {
	At     time.Duration // since the flow's beginning
	Octets uint64
}

// Plan returns the transfers of a flow of a length, in order of time. Gaps and sizes come from
// separate random sequences: loads of one seed with other rates or sizes have the same draws, in
// the same order.
func (l Load) Plan(length time.Duration) (all []Arrival) {
	gaps, sizes := rand.New(rand.NewPCG(l.Seed, 0x67617073)), rand.New(rand.NewPCG(l.Seed, 0x73697a65))
	end := (length - l.Drain).Seconds()
	for at := 0.0; ; {
		at += -math.Log(1-gaps.Float64()) / l.PerSecond
		if at >= end {
			return all
		}
		all = append(all, Arrival{At: time.Duration(at * 1e9), Octets: l.Sizes.Quantile(sizes.Float64())})
	}
}

// Expected is the mean number of transfers of a flow of a length.
func (l Load) Expected(length time.Duration) float64 {
	return l.PerSecond * max(0, length-l.Drain).Seconds()
}

// String describes the load: "web-search up to 5 MB, mean 1.08 MB, 3.2/s".
func (l Load) String() string {
	text := l.Sizes.Name
	if l.Sizes.Most > 0 {
		text += " up to " + Octets(float64(l.Sizes.Most))
	}
	return fmt.Sprintf("%s, mean %s, %.3g/s", text, Octets(l.Sizes.Mean()), l.PerSecond)
}

// Octets formats a size.
func Octets(n float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if n >= unit.size {
			return fmt.Sprintf("%.3g %s", n/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%.3g bytes", n)
}

// Class is a range of sizes, for figures.
type Class struct {
	Name        string
	Above, Most uint64 // octets
}

// Classes are the ranges common in studies of flow completion times (Alizadeh et al., pFabric,
// SIGCOMM 2013).
func Classes() []Class {
	return []Class{{"small", 0, 100_000}, {"middle", 100_000, 10_000_000}, {"large", 10_000_000, math.MaxUint64}}
}

// Has reports whether a size is in the class.
func (c Class) Has(octets uint64) bool { return octets > c.Above && octets <= c.Most }
