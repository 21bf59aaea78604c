// SPDX-License-Identifier: Apache-2.0

package stats_test

import (
	"fmt"

	"weir/record/stats"
)

// A figure is a mean with its 95 % interval; one repetition has none.
func ExampleOf() {
	e := stats.Of([]float64{941, 938, 940, 944, 939})
	low, high, ok := e.Interval()
	fmt.Printf("%.1f [%.1f, %.1f] %t\n", e.Mean, low, high, ok)
	_, _, ok = stats.Of([]float64{941}).Interval()
	fmt.Println(ok)
	// Output:
	// 940.4 [937.5, 943.3] true
	// false
}

// Jain's index is 1 if all values are equal, and 1/n if one value has everything.
func ExampleJain() {
	fmt.Printf("%.2f %.2f\n", stats.Jain([]float64{5, 5, 5, 5}), stats.Jain([]float64{20, 0, 0, 0}))
	// Output: 1.00 0.25
}
