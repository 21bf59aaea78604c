// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"fmt"
	"strconv"
	"strings"

	"weir/internal/yamlfile"
	"weir/tester"
)

// sizes is one frame size, "imix", or a list of shares.
type sizes struct {
	yamlfile.Fields `yaml:"-"`
	imix            bool
	one             int
	Mix             []*shareFile `yaml:"mix,required" doc:"Frame sizes and their weights."`
}

type shareFile struct {
	yamlfile.Fields `yaml:"-"`
	Size            int `yaml:"size,required" doc:"Octets with FCS."`
	Weight          int `yaml:"weight,required" doc:"Frames of this size in a round of the mix."`
}

func (s *sizes) UnmarshalText(text []byte) error {
	word := strings.TrimSpace(string(text))
	if strings.EqualFold(word, "imix") {
		s.imix = true
		return nil
	}
	n, err := strconv.Atoi(word)
	if err != nil {
		return fmt.Errorf("size %q is neither a number of octets nor \"imix\"", word)
	}
	s.one = n
	return nil
}

func (*sizes) ShortForm() string { return `octets such as 512, or "imix"` }

// IMIX is the simple Internet mix: 7 small frames, 4 of 594 octets and 1 of 1518; smallest is the
// minimum with a stamp.
func IMIX(smallest int) []tester.SizeShare {
	return []tester.SizeShare{{Size: smallest, Weight: 7}, {Size: 594, Weight: 4}, {Size: 1518, Weight: 1}}
}

// Smallest returns the size of the smallest frame that carries its headers, a stamp if stamped, and
// the FCS; 64 at least.
func Smallest(family int, tagged, stamped bool) int {
	size := 14 + 20 + 8 + tester.FCSSize
	if family == 6 {
		size += 20
	}
	if tagged {
		size += 4
	}
	if stamped {
		size += tester.StampSize
	}
	if tagged {
		return max(size, 68)
	}
	return max(size, 64)
}

// MeanWire returns the mean size on the wire of the mix's frames, in octets.
func MeanWire(mix []tester.SizeShare) float64 {
	octets, weight := 0, 0
	for _, share := range mix {
		octets += (share.Size + tester.WireOverhead) * share.Weight
		weight += share.Weight
	}
	return float64(octets) / float64(max(weight, 1))
}

// mix converts the file's sizes to shares and checks that the headers fit.
func (b *builder) mix(f *streamFile, smallest int) []tester.SizeShare {
	var mix []tester.SizeShare
	place := f.At("size")
	switch s := f.Size; {
	case s == nil:
		return []tester.SizeShare{{Size: smallest, Weight: 1}}
	case s.imix:
		return IMIX(smallest)
	case s.one != 0:
		mix = []tester.SizeShare{{Size: s.one, Weight: 1}}
	default:
		for _, share := range s.Mix {
			if share.Weight < 1 || share.Weight > 1000 {
				b.problems.Add(share.At("weight"), "", "weight %d is outside 1 to 1000", share.Weight)
			}
			mix = append(mix, tester.SizeShare{Size: share.Size, Weight: share.Weight})
		}
	}
	for _, share := range mix {
		switch {
		case share.Size > 9000:
			b.problems.Add(place, "use at most 9000", "frames of %d octets are too large", share.Size)
		case share.Size < smallest:
			b.problems.Add(place, fmt.Sprintf("use at least %d", smallest),
				"frames of %d octets are too short: headers, the stamp of %d octets if there is one, and FCS take %d", share.Size, tester.StampSize, smallest)
		}
	}
	return mix
}
