// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"math"
	"time"
)

// PFTKOptions are the parameters of the full model beside the path. The zero value is RFC 5348's: b
// of 1 and an RTO of four RTTs.
type PFTKOptions struct {
	SegmentsPerACK int           // b: 2 with delayed ACKs; 0 is 1
	RTO            time.Duration // retransmission timeout; 0 is 4·RTT. Linux has SRTT + 200 ms at least.
	Window         float64       // largest window in segments; 0 is no limit
}

// PFTK returns the throughput of Padhye, Firoiu, Towsley and Kurose ("Modeling TCP throughput",
// 1998), in the form of RFC 5348 section 3.1:
//
//	X = s / (R·√(2bp/3) + t_RTO·(3·√(3bp/8)·p·(1+32p²)))
//
// It includes timeouts, which dominate above p of about 5 %. It is the rate sent; the share 1-p
// arrives.
func PFTK(p Path, o PFTKOptions) Prediction {
	out := Prediction{Model: ModelPFTK, Regime: NoLoss}
	rate, ok := p.usable()
	if !ok {
		out.Rate = rate
		return out.window(p, o)
	}
	b, rto := float64(max(1, o.SegmentsPerACK)), o.RTO
	if rto == 0 {
		rto = 4 * p.RTT
	}
	e := p.LossEvent
	reductions := p.RTT.Seconds() * math.Sqrt(2*b*e/3)
	timeouts := rto.Seconds() * 3 * math.Sqrt(3*b*e/8) * e * (1 + 32*e*e)
	out.Rate, out.Regime = float64(p.MSS)*8/(reductions+timeouts), WindowReduction
	if timeouts > reductions {
		out.Regime = Timeouts
	}
	return out.window(p, o)
}

// window applies the maximum window.
func (out Prediction) window(p Path, o PFTKOptions) Prediction {
	if o.Window <= 0 || p.RTT <= 0 {
		return out
	}
	return out.Within(p.rate(o.Window))
}
