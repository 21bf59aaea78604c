// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"math"

	"weir/core/module"
	"weir/internal/units"
	"weir/record/stats"
)

// A rate holds if the 95 % interval of the mean lies from 2 % below it to 1 % above.
const (
	below = 0.02
	above = 0.01
	// foreign is the share by which the charged rate must exceed the received rate to count as
	// other traffic of the scope: it includes acknowledgements of a peer on the same host.
	foreign = 0.02
	// uncharged is the share of the received bytes that the scope's counters may lack.
	uncharged = 0.02
	// busyLimit is the CPU utilization above which a rate below the promise is inconclusive.
	busyLimit = 0.97
	// maxRetransmitted is the share of bytes that TCP may retransmit. Behind queues (shaping, HTB)
	// it was 0.25 % at most (docs/results/limit.md); 1 % loss bounds a flow with an RTT of 10 ms to
	// 15 Mbit/s (Mathis et al. 1997).
	maxRetransmitted = 0.01
	// maxSmallLost is the share of small packets that may be lost: the bound of ITU-T Y.1541 for
	// all classes that have one.
	maxSmallLost = 0.001
	// segmentPayload is the bytes of a TCP segment in a full frame, over IPv4 with timestamps.
	segmentPayload = 1448
	// sigmas is the number of standard deviations above the bound that makes a loss significant.
	sigmas = 2
	// minUse is the share of the available rate that a QUIC-like flow and short transfers must
	// reach: halving a window at every loss costs a tenth on a path without a queue.
	minUse = 0.9
)

// valueOf returns the received rate, or the charged rate if the scope clearly had other traffic.
func valueOf(s module.Sample) float64 {
	if s.Quotient > 1+foreign {
		return s.Charged
	}
	return s.Received
}

// judge compares a long flow's rate with the promise. Tighter describes another scope that may
// allow less.
func judge(promise units.BitRate, samples []module.Sample, c module.Circumstances, tighter string) (module.Verdict, string) {
	values := make([]float64, len(samples))
	var busy, quotient float64
	for i, s := range samples {
		values[i] = valueOf(s)
		busy, quotient = max(busy, s.Busy), quotient+s.Quotient/float64(len(samples))
	}
	measured := stats.Of(values)
	low, high, _ := measured.Interval()
	floor, ceiling := float64(promise)*(1-below), float64(promise)*(1+above)
	share := func(x float64) float64 { return 100 * x / float64(promise) }
	switch {
	case quotient < 1-uncharged:
		return module.Leaks, fmt.Sprintf("%.0f %% of the received bytes were not charged to the scope", 100*(1-quotient))
	case low > ceiling:
		return module.Leaks, fmt.Sprintf("the rate was %.1f %% of the promise", share(measured.Mean))
	}
	if verdict, why := judgeLosses(samples, c, busy); verdict != "" {
		return verdict, why
	}
	switch {
	case low >= floor && high <= ceiling:
		return module.Holds, ""
	case busy > busyLimit && measured.Mean < floor:
		return module.CannotSay, fmt.Sprintf("the rate was only %.1f %% of the promise, and the CPUs were busy for %.0f %% of the time; stop other load",
			share(measured.Mean), 100*busy)
	case high >= floor:
		return module.CannotSay, fmt.Sprintf("the interval is %.1f to %.1f %% of the promise, partly outside of 98 to 101 %%; more --repetitions or a longer --duration narrow it",
			share(low), share(high))
	case tighter != "":
		return module.CannotSay, "another scope of this traffic may allow less: " + tighter
	case c.Unknown != "":
		return module.CannotSay, "the capacity of the path without the limit is unknown: " + c.Unknown
	}
	return module.Under, fmt.Sprintf("the rate was %.1f %% of the promise, and the path carries %s without the limit", share(measured.Mean), c.Capacity)
}

// judgeUse judges short flows by their mean rate. The capacity for short transfers includes the
// time of handshakes and processes, which a limit does not change.
func judgeUse(promise units.BitRate, samples []module.Sample, c module.Circumstances, tighter string) (module.Verdict, string) {
	var busy float64
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i], busy = s.Received, max(busy, s.Busy)
	}
	mean := stats.Of(values).Mean
	if verdict, why := judgeLosses(samples, c, busy); verdict != "" {
		return verdict, why
	}
	available := float64(promise)
	if c.Path.Protocol == module.Short && c.Capacity > 0 {
		available = 1 / (1/available + 1/float64(c.Capacity))
	}
	if mean >= minUse*available {
		return module.Holds, ""
	}
	why := fmt.Sprintf("the rate was %.1f %% of the promise", 100*mean/float64(promise))
	switch {
	case busy > busyLimit:
		return module.CannotSay, fmt.Sprintf("%s, and the CPUs were busy for %.0f %% of the time; stop other load", why, 100*busy)
	case tighter != "":
		return module.CannotSay, why + "; another scope of this traffic may allow less: " + tighter
	case c.Unknown != "":
		return module.CannotSay, why + ", and the capacity of the path without the limit is unknown: " + c.Unknown
	}
	return module.Under, fmt.Sprintf("%s, and the path carries %s of such flows without the limit", why, c.Capacity)
}

// judgeLosses returns a verdict if losses exceed their bounds; "" otherwise. Busy CPUs excuse
// losses that the scope's counters do not explain.
func judgeLosses(samples []module.Sample, c module.Circumstances, busy float64) (module.Verdict, string) {
	why := excess(module.LossesOf(samples), c.Path)
	switch {
	case why == "":
		return "", ""
	case busy > busyLimit && !dropped(samples):
		return module.CannotSay, fmt.Sprintf("%s, and the CPUs were busy for %.0f %% of the time; stop other load", why, 100*busy)
	case c.Unknown != "":
		return module.CannotSay, why + ", and the losses of the path without the limit are unknown: " + c.Unknown
	case excess(c.Losses, c.Path) != "":
		return module.CannotSay, why + "; and without the limit " + excess(c.Losses, c.Path)
	}
	return module.Loses, why
}

// excess describes losses above their bound; "" for none.
func excess(l module.Losses, p module.Path) string {
	expected := maxSmallLost * float64(l.Sent)
	switch {
	case l.Again > maxRetransmitted && p.Protocol == module.QUIC:
		return fmt.Sprintf("%.1f %% of the datagrams were lost; the bound is 1 %%", 100*l.Again)
	case l.Again > maxRetransmitted:
		return fmt.Sprintf("TCP retransmitted %.1f %% of its bytes; the bound is 1 %%", 100*l.Again)
	case float64(l.Lost) > expected+sigmas*math.Sqrt(expected):
		return fmt.Sprintf("%d of %d small packets were lost; the bound is 0.1 %%", l.Lost, l.Sent)
	}
	return ""
}

// dropped reports whether the scope's counters explain half of the losses.
func dropped(samples []module.Sample) bool {
	var drops, lost uint64
	for _, s := range samples {
		drops += s.Counters["dropped"] + s.Counters["early_drops"]
		lost += s.Again/segmentPayload + s.Probes.Lost
	}
	return 2*drops >= lost
}
