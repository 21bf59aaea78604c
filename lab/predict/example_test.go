// SPDX-License-Identifier: Apache-2.0

package predict_test

import (
	"fmt"
	"time"

	"weir/lab/predict"
)

// The goodput of a flow over a path of 20 ms with 1 % loss, by Mathis.
func ExampleMathisRange() {
	low, high := predict.MathisRange(predict.Path{MSS: 1448, RTT: 20 * time.Millisecond, LossEvent: 0.01})
	fmt.Printf("%.1f to %.1f Mbit/s, limited by %s\n", low.Rate/1e6, high.Rate/1e6, low.Regime)
	// Output: 5.0 to 7.1 Mbit/s, limited by window reduction
}
