// SPDX-License-Identifier: Apache-2.0

package stats

import "math"

// Jain returns Jain's fairness index of the flows' values: 1 if all are equal, 1/n if one flow has
// everything (Jain, Chiu, Hawe 1984: (Σx)² / (n·Σx²)). Values must not be negative. All zero is
// fair: 1. No values give 0.
func Jain(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	largest := 0.0
	for _, v := range values {
		largest = max(largest, math.Abs(v))
	}
	if largest == 0 {
		return 1
	}
	var sum, squares float64
	for _, v := range values {
		x := v / largest // keeps the squares in range
		sum += x
		squares += x * x
	}
	return sum * sum / (float64(len(values)) * squares)
}

// Harm returns the harm of contention to a metric with a preference for high values, such as
// goodput: the lost share of the value without contention (Ware et al., "Beyond Jain's Fairness
// Index", HotNets 2019, section 4). 0 is no harm, 1 is starvation; below 0 contention improved the
// value. A solo value of 0 gives 0.
func Harm(solo, contended float64) float64 {
	if solo == 0 {
		return 0
	}
	return (solo - contended) / solo
}

// HarmLess is Harm for a metric with a preference for low values, such as delay or loss: (contended
// − solo) / contended.
func HarmLess(solo, contended float64) float64 {
	if contended == 0 {
		return 0
	}
	return (contended - solo) / contended
}
