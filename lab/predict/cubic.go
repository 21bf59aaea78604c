// SPDX-License-Identifier: Apache-2.0

package predict

import "math"

// Constants of CUBIC (RFC 9438 sections 4.1, 4.6 and 5); Linux uses the same.
const (
	cubicC    = 0.4 // segments/s³
	cubicBeta = 0.7
)

// CUBIC returns the goodput of the mean window of RFC 9438 under periodic loss: the larger of
//
//	(C·(3+β) / (4·(1-β)))^¼ · (RTT/p)^¾    section 5, concave or convex region (sections 4.4, 4.5)
//	√(3/(2p))                              sections 4.3 and 5, Reno-friendly: the mean window of Reno
//
// The regime says which. Short round trips are Reno-friendly: at 100 ms for p above 5.5e-4, and
// more so below 100 ms.
func CUBIC(p Path) Prediction {
	out := Prediction{Model: ModelCUBIC, Regime: NoLoss}
	rate, ok := p.usable()
	if !ok {
		out.Rate = rate
		return out
	}
	reno := math.Sqrt(1.5 / p.LossEvent)
	cubic := math.Pow(cubicC*(3+cubicBeta)/(4*(1-cubicBeta)), 0.25) * math.Pow(p.RTT.Seconds()/p.LossEvent, 0.75)
	out.Regime = RenoFriendly
	if cubic > reno {
		out.Regime = CubicGrowth
	}
	out.Rate = p.rate(max(reno, cubic))
	return out
}
