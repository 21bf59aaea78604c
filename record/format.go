// SPDX-License-Identifier: Apache-2.0

package record

import (
	"math"
	"strconv"
	"strings"
)

// scale is one way to print a unit: value divided by Factor, followed by Name.
type scale struct {
	factor float64
	name   string
}

// scales lists, per unit, its common prefixes, smallest first. Other units are printed as they are.
func (u Unit) scales() []scale {
	switch u {
	case BitPerSecond:
		return []scale{{1, "bit/s"}, {1e3, "kbit/s"}, {1e6, "Mbit/s"}, {1e9, "Gbit/s"}, {1e12, "Tbit/s"}}
	case FramePerSecond:
		return []scale{{1, "frame/s"}, {1e3, "kframe/s"}, {1e6, "Mframe/s"}}
	case Seconds:
		return []scale{{1e-9, "ns"}, {1e-6, "µs"}, {1e-3, "ms"}, {1, "s"}}
	case Bytes:
		return []scale{{1, "B"}, {1e3, "kB"}, {1e6, "MB"}, {1e9, "GB"}, {1e12, "TB"}}
	case Frames:
		return []scale{{1, "frames"}}
	case Count, Share, "":
		return []scale{{1, ""}}
	}
	return []scale{{1, string(u)}}
}

// Scale returns the prefix for values up to that magnitude: divide by factor, print name ("Mbit/s",
// "" for a share).
func (u Unit) Scale(magnitude float64) (factor float64, name string) {
	scales := u.scales()
	chosen := scales[len(scales)-1]
	for i := len(scales) - 1; i >= 0; i-- {
		chosen = scales[i]
		// 999.95 prints as 1000 with four digits: take the next prefix from there.
		if math.Abs(magnitude) >= chosen.factor*0.99995 {
			break
		}
	}
	if magnitude == 0 || math.IsNaN(magnitude) || math.IsInf(magnitude, 0) {
		chosen = scales[0]
		for _, s := range scales {
			if s.factor == 1 {
				chosen = s
			}
		}
	}
	return chosen.factor, chosen.name
}

// Format prints a value with four significant digits and a suitable prefix: "373.2 Mbit/s", "20.1
// ms", "0.982". Whole counts are printed in full.
func (u Unit) Format(v float64) string {
	factor, name := u.Scale(v)
	return strings.TrimSpace(u.number(v/factor) + " " + name)
}

// FormatInterval prints an interval with one prefix for both ends: "360-390 Mbit/s".
func (u Unit) FormatInterval(low, high float64) string {
	factor, name := u.Scale(max(math.Abs(low), math.Abs(high)))
	separator := "–"
	if low < 0 || high < 0 {
		separator = " to "
	}
	return strings.TrimSpace(u.number(low/factor) + separator + u.number(high/factor) + " " + name)
}

// number prints with four significant digits, without an exponent in the usual ranges and without
// trailing zeros.
func (u Unit) number(v float64) string {
	if (u == Count || u == Frames) && v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	magnitude := math.Abs(v)
	if magnitude != 0 && (magnitude < 1e-4 || magnitude >= 1e7) {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	decimals := 4
	for limit := 1.0; limit <= magnitude && decimals > 0; limit *= 10 {
		decimals--
	}
	if magnitude < 1 {
		for limit := 0.1; limit > magnitude && decimals < 7 && magnitude > 0; limit /= 10 {
			decimals++
		}
	}
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	if text == "-0" {
		text = "0"
	}
	return text
}
