// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"

	"weir/core/module"
	"weir/internal/units"
	"weir/record/stats"
)

// A rate holds if the 95 % interval of the mean lies from 2 % below it to 1 % above.
const (
	below = 0.02
	above = 0.01
	// foreign is how much more than what arrived a scope must have been charged before that counts
	// as other traffic of its own: acknowledgements of a peer on the same host are charged to the
	// host's scope too.
	foreign = 0.02
	// uncharged is the part of what arrived that may miss in the scope's counters.
	uncharged = 0.02
	// busyLimit is the share of processor time above which too low a rate says nothing about the
	// limit.
	busyLimit = 0.97
)

// valueOf is what counts: what arrived, or what the scope was charged if it clearly had other
// traffic too.
func valueOf(s module.Sample) float64 {
	if s.Quotient > 1+foreign {
		return s.Charged
	}
	return s.Received
}

// judge compares what was measured with the promise. Tighter is another scope that may allow less,
// in words.
func judge(promise units.BitRate, samples []module.Sample, c module.Circumstances, tighter string) (module.Verdict, string) {
	values := make([]float64, len(samples))
	var busy, quotient float64
	for i, s := range samples {
		values[i] = valueOf(s)
		busy, quotient = max(busy, s.Busy), quotient+s.Quotient/float64(len(samples))
	}
	measured := stats.Of(values)
	low, high, _ := measured.Interval()
	least, most := float64(promise)*(1-below), float64(promise)*(1+above)
	share := func(x float64) float64 { return 100 * x / float64(promise) }
	switch {
	case quotient < 1-uncharged:
		return module.Leaks, fmt.Sprintf("%.0f %% of what arrived was not charged to the scope", 100*(1-quotient))
	case low > most:
		return module.Leaks, fmt.Sprintf("%.1f %% of the promise passed", share(measured.Mean))
	}
	if verdict, why := judgeLosses(samples, c, busy); verdict != "" {
		return verdict, why
	}
	switch {
	case low >= least && high <= most:
		return module.Holds, ""
	case busy > busyLimit && measured.Mean < least:
		return module.CannotSay, fmt.Sprintf("only %.1f %% of the promise passed, and the processors were busy for %.0f %% of the time; free them",
			share(measured.Mean), 100*busy)
	case high >= least:
		return module.CannotSay, fmt.Sprintf("the interval is %.1f to %.1f %% of the promise, partly outside of 98 to 101 %%; more --repetitions or a longer --duration narrow it",
			share(low), share(high))
	case tighter != "":
		return module.CannotSay, "another scope that this traffic belongs to may allow less: " + tighter
	case c.Unknown != "":
		return module.CannotSay, "nothing shows what the path carries without the limit: " + c.Unknown
	}
	return module.Under, fmt.Sprintf("%.1f %% of the promise passed, and the path carries %s without the limit", share(measured.Mean), c.Capacity)
}
