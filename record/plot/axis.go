// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"math"
	"strings"

	"gonum.org/v1/plot"

	"weir/record"
)

// axis is the range and the ticks of one axis, in base units.
type axis struct {
	low, high float64
	log       bool
	unit      record.Unit
	factor    float64  // divisor of the tick labels of a linear axis
	suffix    string   // its unit: "Mbit/s"
	names     []string // categories at 0, 1, 2 ...
}

// newAxis makes an axis for values between low and high, which must be finite, and positive if log.
func newAxis(low, high float64, unit record.Unit, log bool) axis {
	a := axis{low: low, high: high, log: log, unit: unit}
	a.factor, a.suffix = unit.Scale(max(math.Abs(low), math.Abs(high)) / 2) // 0 to 1000 Mbit/s, not 0 to 1 Gbit/s
	if a.low == a.high {
		a.widen()
	}
	return a
}

// widen extends an axis of a single value.
func (a *axis) widen() {
	switch {
	case a.log:
		a.low, a.high = a.low/2, a.high*2
	case a.low == 0:
		a.high = a.factor
	default:
		a.low, a.high = a.low-math.Abs(a.low)*0.1, a.high+math.Abs(a.high)*0.1
	}
}

// percent shows shares in percent: for an x axis with a parameter such as a loss probability.
func (a *axis) percent() {
	if a.unit == record.Share && !a.log {
		a.factor, a.suffix = 0.01, "%"
	}
}

// label returns the axis's title with the unit behind it.
func (a axis) label(text string) string {
	if a.suffix == "" || a.log || len(a.names) > 0 {
		return text
	}
	return strings.TrimSpace(text + " (" + a.suffix + ")")
}

// ticks implements plot.TickerFunc.
func (a axis) ticks(low, high float64) []plot.Tick {
	switch {
	case len(a.names) > 0:
		ticks := make([]plot.Tick, len(a.names))
		for i, name := range a.names {
			ticks[i] = plot.Tick{Value: float64(i), Label: name}
		}
		return ticks
	case a.log:
		return a.decades(low, high)
	}
	return a.linear(low, high)
}

// linear places about seven ticks at 1, 2, 2.5 or 5 times a power of ten of the unit shown.
func (a axis) linear(low, high float64) []plot.Tick {
	step := a.step(low, high)
	var ticks []plot.Tick
	for k := math.Ceil(low/a.factor/step - 1e-9); k*step <= high/a.factor*(1+1e-9)+step*1e-9 && len(ticks) < 100; k++ {
		ticks = append(ticks, plot.Tick{Value: k * step * a.factor, Label: record.Share.Format(k * step)})
	}
	return ticks
}

// step returns the distance of ticks in the unit shown.
func (a axis) step(low, high float64) float64 {
	rough := (high - low) / a.factor / 7
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, nice := range []float64{1, 2, 2.5, 5} {
		if rough <= nice*power {
			return nice * power
		}
	}
	return 10 * power
}

// decades places ticks at powers of ten with small ones between, or at 1, 2 and 5 if the range is
// short.
func (a axis) decades(low, high float64) []plot.Tick {
	first, last := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	every := max(math.Ceil((last-first)/8), 1)
	short := math.Log10(high/low) < 2
	var ticks []plot.Tick
	for e := first; e <= last; e++ {
		for digit := 1.0; digit < 10; digit++ {
			v := digit * math.Pow(10, e)
			if v < low*(1-1e-9) || v > high*(1+1e-9) {
				continue
			}
			tick := plot.Tick{Value: v}
			named := digit == 1 && math.Mod(e-first, every) == 0
			if named || (short && (digit == 1 || digit == 2 || digit == 5)) {
				tick.Label = a.unit.Format(v)
			}
			if every == 1 || digit == 1 {
				ticks = append(ticks, tick)
			}
		}
	}
	return ticks
}
