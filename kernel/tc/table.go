// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"encoding/binary"
	"math"
)

// netem draws a delay as mean + jitter · table[random] / tableScale, in which the table is the
// inverse of a cumulative distribution at evenly spaced shares.
const (
	tableSize  = 4096
	tableScale = 8192
	paretoA    = 3.0 // shape
)

// delayTable returns the table of a distribution as netem takes it: signed 16-bit numbers, smallest
// first.
func delayTable(d Distribution) []byte {
	inverse := normalInverse
	if d == Pareto {
		inverse = paretoInverse
	}
	var b []byte
	for i := range tableSize {
		value := math.Round(tableScale * inverse((float64(i)+0.5)/tableSize))
		value = min(max(value, math.MinInt16), math.MaxInt16)
		b = binary.NativeEndian.AppendUint16(b, uint16(int16(value)))
	}
	return b
}

// normalInverse is the inverse of the standard normal distribution.
func normalInverse(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// paretoInverse is the inverse of the Pareto distribution with shape paretoA and scale 1, moved to
// mean 0 and divided by its variance, as iproute2's table of this name is. Cut where 16 bits end,
// the table has mean -0.03 and deviation 0.82.
func paretoInverse(p float64) float64 {
	mean := paretoA / (paretoA - 1)
	variance := paretoA / ((paretoA - 1) * (paretoA - 1) * (paretoA - 2))
	return (math.Pow(1-p, -1/paretoA) - mean) / variance
}
