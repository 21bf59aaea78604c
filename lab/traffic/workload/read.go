// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// maxPoints is more than any published distribution has.
const maxPoints = 10_000

// Read reads a distribution with a point per line: bytes, then the share of transfers of at most
// that size, separated by spaces, a tab or a comma. Both increase, and the last share is 1. Text
// after a # is a comment.
func Read(name, text string) (Sizes, error) {
	s := Sizes{Name: name}
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\r,", r) })
		if len(fields) == 0 {
			continue
		}
		point, err := readPoint(fields)
		if err == nil {
			err = s.follows(point)
		}
		if err != nil {
			return Sizes{}, fmt.Errorf("line %d: %w", i+1, err)
		}
		s.Points = append(s.Points, point)
	}
	if len(s.Points) == 0 {
		return Sizes{}, fmt.Errorf("there is no point in it")
	}
	last := s.Points[len(s.Points)-1]
	switch {
	case last.Share != 1:
		return Sizes{}, fmt.Errorf("the last share is %g, not 1", last.Share)
	case last.Octets < 1:
		return Sizes{}, fmt.Errorf("no size is above 0 bytes")
	}
	return s, nil
}

func readPoint(fields []string) (p Point, err error) {
	if len(fields) != 2 {
		return p, fmt.Errorf("%d values; a point has 2: bytes and a share", len(fields))
	}
	for i, into := range []*float64{&p.Octets, &p.Share} {
		*into, err = strconv.ParseFloat(fields[i], 64)
		if err != nil || math.IsNaN(*into) {
			return p, fmt.Errorf("%q is no number", fields[i])
		}
	}
	switch {
	case p.Octets < 0 || p.Octets > 1<<50:
		return p, fmt.Errorf("%g bytes are outside 0 to 2^50", p.Octets)
	case p.Share < 0 || p.Share > 1:
		return p, fmt.Errorf("the share %g is outside 0 to 1", p.Share)
	}
	return p, nil
}

// follows reports whether a point may be the next.
func (s Sizes) follows(p Point) error {
	if len(s.Points) == maxPoints {
		return fmt.Errorf("more than %d points", maxPoints)
	}
	if len(s.Points) == 0 {
		return nil
	}
	before := s.Points[len(s.Points)-1]
	switch {
	case p.Octets < before.Octets:
		return fmt.Errorf("%.0f bytes follow %.0f", p.Octets, before.Octets)
	case p.Share < before.Share:
		return fmt.Errorf("the share falls from %g to %g", before.Share, p.Share)
	}
	return nil
}
