// SPDX-License-Identifier: Apache-2.0

package predict

import "math"

// Constants of Mathis' equation for periodic loss (Mathis, Semke, Mahdavi and Ott, "The macroscopic
// behavior of the TCP congestion avoidance algorithm", 1997, section 2 and table 1). Random loss
// moves them to 0.93 and 1.31.
const (
	DelayedACKs = 0.8660254037844386 // sqrt(3/4): the receiver acknowledges every second segment
	EveryACK    = 1.224744871391589  // sqrt(3/2): it acknowledges every segment
)

// Mathis returns MSS·C / (RTT·√p). It knows no timeouts and no limit of the window: above p of
// about 1 % it is too high.
func Mathis(p Path, c float64) Prediction {
	out := Prediction{Model: ModelMathis, Regime: NoLoss}
	rate, ok := p.usable()
	if !ok {
		out.Rate = rate
		return out
	}
	out.Rate, out.Regime = p.rate(c/math.Sqrt(p.LossEvent)), WindowReduction
	return out
}

// MathisRange returns the prediction for delayed ACKs and the one for an ACK per segment:
// measurements of Reno-like flows lie between them, or near.
func MathisRange(p Path) (low, high Prediction) {
	return Mathis(p, DelayedACKs), Mathis(p, EveryACK)
}
