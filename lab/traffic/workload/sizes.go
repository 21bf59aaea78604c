// SPDX-License-Identifier: Apache-2.0

// Package workload draws the start and the size of each transfer of an open loop. It is pure; one
// seed always gives the same transfers.
package workload

import (
	"math"
	"slices"
	"sort"

	"weir/internal/units"
)

// Point is a point of a cumulative distribution: this share of the transfers has at most so many
// bytes.
type Point struct {
	Octets float64
	Share  float64
}

// Sizes is a distribution of sizes. Sizes between two points are uniform, as in the field's
// simulations; the first point's share has that point's size.
type Sizes struct {
	Name   string // for reports
	Points []Point
	// Most caps the size, in bytes; 0 does not.
	Most units.ByteSize
}

// Fixed gives all transfers one size.
func Fixed(size units.ByteSize) Sizes {
	return Sizes{Name: Octets(float64(size)), Points: []Point{{float64(size), 1}}}
}

// Quantile is the size that a share of the transfers does not exceed, in whole bytes and at least
// 1. The share is from 0 to 1.
func (s Sizes) Quantile(share float64) uint64 {
	octets := s.whole(share)
	if s.Most > 0 {
		octets = min(octets, float64(s.Most))
	}
	return uint64(max(1, math.Round(octets)))
}

// whole is the quantile without Most.
func (s Sizes) whole(share float64) float64 {
	i := sort.Search(len(s.Points), func(i int) bool { return s.Points[i].Share >= share })
	switch {
	case i == 0:
		return s.Points[0].Octets
	case i == len(s.Points):
		return s.Points[i-1].Octets
	}
	low, high := s.Points[i-1], s.Points[i]
	return low.Octets + (high.Octets-low.Octets)*(share-low.Share)/(high.Share-low.Share)
}

// Mean is the mean size in bytes.
func (s Sizes) Mean() float64 {
	sum := s.Points[0].Share * s.cut(s.Points[0].Octets)
	for i := 1; i < len(s.Points); i++ {
		sum += s.between(s.Points[i-1], s.Points[i])
	}
	return sum
}

// between is the contribution of the sizes between two points to the mean.
func (s Sizes) between(low, high Point) float64 {
	share, most := high.Share-low.Share, float64(s.Most)
	if s.Most == 0 || high.Octets <= most {
		return share * (low.Octets + high.Octets) / 2
	}
	if low.Octets >= most {
		return share * most
	}
	below := share * (most - low.Octets) / (high.Octets - low.Octets)
	return below*(low.Octets+most)/2 + (share-below)*most
}

func (s Sizes) cut(octets float64) float64 {
	if s.Most > 0 {
		return min(octets, float64(s.Most))
	}
	return octets
}

// Cut is the share of transfers that Most caps, and the mean size in bytes without it.
func (s Sizes) Cut() (share, mean float64) {
	free := s
	free.Most = 0
	if s.Most == 0 {
		return 0, free.Mean()
	}
	return 1 - s.below(float64(s.Most)), free.Mean()
}

// below is the share of transfers of at most octets bytes.
func (s Sizes) below(octets float64) float64 {
	i, _ := slices.BinarySearchFunc(s.Points, octets, func(p Point, octets float64) int {
		if p.Octets <= octets {
			return -1
		}
		return 1
	})
	switch {
	case i == 0:
		return 0
	case i == len(s.Points):
		return 1
	}
	low, high := s.Points[i-1], s.Points[i]
	return low.Share + (high.Share-low.Share)*(octets-low.Octets)/(high.Octets-low.Octets)
}
