// SPDX-License-Identifier: Apache-2.0

package stats

import "math"

// Jain returns Jain's fairness index of what each flow got: 1 where all got the same, 1/n where one
// got everything (Jain, Chiu, Hawe 1984: (Σx)² / (n·Σx²)). Values must not be negative. All zero is
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

// Harm returns the harm that contention does to a metric where more is better, such as goodput: the
// share of what a flow got alone that it lost (Ware et al., "Beyond Jain's Fairness Index", HotNets
// 2019, section 4). 0 is no harm, 1 is starvation; below 0 the flow did better in company. Nothing
// alone gives 0.
func Harm(solo, contended float64) float64 {
	if solo == 0 {
		return 0
	}
	return (solo - contended) / solo
}

// HarmLess is Harm for a metric where less is better, such as delay or loss: (contended − solo) /
// contended.
func HarmLess(solo, contended float64) float64 {
	if contended == 0 {
		return 0
	}
	return (contended - solo) / contended
}
