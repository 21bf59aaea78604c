// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"math"

	"weir/core/module"
	"weir/internal/units"
	"weir/record/stats"
)

const (
	// againMost is the share of octets that TCP may send again. Behind queues, by delay or HTB, it
	// was 0.25 % at most (docs/results/limit.md), and losses of a hundredth bound a flow 10 ms away
	// to 15 Mbit/s (Mathis et al. 1997).
	againMost = 0.01
	// smallMost is the share of small packets that may be lost: the bound of ITU-T Y.1541 for all
	// classes that have one.
	smallMost = 0.001
	// segmentPayload is the octets of a TCP segment of a full frame, by IPv4 and with timestamps.
	segmentPayload = 1448
	// chance is how many standard deviations beyond the bound a count must lie to be no accident.
	chance = 2
)

// judgeLosses compares what users lose with what they bear; "" where that is more. Busy processors
// may explain a loss unless the scope itself says that it has dropped so much.
func judgeLosses(samples []module.Sample, c module.Circumstances, busy float64) (module.Verdict, string) {
	l := module.LossesOf(samples)
	why := tooMuch(l, c.Path)
	switch {
	case why == "":
		return "", ""
	case busy > busyLimit && !dropped(samples):
		return module.CannotSay, fmt.Sprintf("%s, and the processors were busy for %.0f %% of the time; free them", why, 100*busy)
	case c.Unknown != "":
		return module.CannotSay, why + ", and nothing shows what the path loses without the limit: " + c.Unknown
	case tooMuch(c.Losses, c.Path) != "":
		return module.CannotSay, why + "; and without the limit " + tooMuch(c.Losses, c.Path)
	}
	return module.Loses, why
}

// tooMuch says what of it is more than users bear; "" for nothing.
func tooMuch(l module.Losses, p module.Path) string {
	expected := smallMost * float64(l.Sent)
	switch {
	case l.Again > againMost && p.Protocol == module.QUIC:
		return fmt.Sprintf("%.1f %% of the datagrams were lost, of which 1 %% holds", 100*l.Again)
	case l.Again > againMost:
		return fmt.Sprintf("%.1f %% of what TCP sent was sent again, of which 1 %% holds", 100*l.Again)
	case float64(l.Lost) > expected+chance*math.Sqrt(expected):
		return fmt.Sprintf("%d of %d small packets were lost, of which 0.1 %% hold", l.Lost, l.Sent)
	}
	return ""
}

// dropped says whether a scope's counters, of packets as the stack hands them over, make up for
// half of what was lost.
func dropped(samples []module.Sample) bool {
	var counted, lost uint64
	for _, s := range samples {
		counted += s.Counters["refused"] + s.Counters["early_drops"]
		lost += s.Again/segmentPayload + s.Probes.Lost
	}
	return 2*counted >= lost
}

// usedLeast is the part of what could be used that a QUIC-like flow and short transfers must get: a
// tenth is what halving a window at every loss costs on a path without a queue of its own.
const usedLeast = 0.9

// judgeUse judges flows that do not last. What short transfers could use is the rate behind the
// path: handshakes and processes take their time without a limit too.
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
	could := float64(promise)
	if c.Path.Protocol == module.Short && c.Capacity > 0 {
		could = 1 / (1/could + 1/float64(c.Capacity))
	}
	if mean >= usedLeast*could {
		return module.Holds, ""
	}
	why := fmt.Sprintf("%.1f %% of the promise passed", 100*mean/float64(promise))
	switch {
	case busy > busyLimit:
		return module.CannotSay, fmt.Sprintf("%s, and the processors were busy for %.0f %% of the time; free them", why, 100*busy)
	case tighter != "":
		return module.CannotSay, why + "; another scope that this traffic belongs to may allow less: " + tighter
	case c.Unknown != "":
		return module.CannotSay, why + ", and nothing shows what the path carries without the limit: " + c.Unknown
	}
	return module.Under, fmt.Sprintf("%s, and the path carries %s of such flows without the limit", why, c.Capacity)
}
