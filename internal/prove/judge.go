package prove

import (
	"fmt"
	"time"

	"weir/internal/units"
	"weir/record/stats"
)

// A promise holds if the 95 % interval of the mean lies from 2 % below it to 1 % above.
const (
	below = 0.02
	above = 0.01
	// foreign is how much more than what arrived a scope must have been charged before that counts as other traffic of its
	// own: acknowledgements of a peer on the same host are charged to the host's scope too.
	foreign = 0.02
	// uncharged is the part of what arrived that may miss in the scope's counters.
	uncharged = 0.02
	// busyLimit is the share of processor time above which too low a rate says nothing about the limit.
	busyLimit = 0.97
	// fewestPackets keeps one packet more or less from deciding: a window must hold so many.
	fewestPackets = 100
	fullFrame     = 1514 // octets
)

// shortest is the least duration of a window that says something about a rate.
func shortest(promise units.BitRate) time.Duration {
	return time.Duration(fewestPackets * fullFrame * 8e9 / float64(promise))
}

// circumstances are what may explain a rate that is too low; "" and 0 where they do not apply.
type circumstances struct {
	capacity units.BitRate // of the path without the limit; 0 is unknown
	unknown  string        // why it is unknown
	tighter  string        // another scope that allows less
}

// judge compares what was measured with the promise.
func judge(promise units.BitRate, samples []Sample, c circumstances) (Verdict, string) {
	measured := stats.Of(values(samples))
	low, high, _ := measured.Interval()
	least, most := float64(promise)*(1-below), float64(promise)*(1+above)
	var busy, quotient float64
	for _, s := range samples {
		busy, quotient = max(busy, s.Busy), quotient+s.Quotient/float64(len(samples))
	}
	switch {
	case quotient < 1-uncharged:
		return Leaks, fmt.Sprintf("%.0f %% of what arrived was not charged to the scope", 100*(1-quotient))
	case low > most:
		return Leaks, fmt.Sprintf("%.1f %% of the promise passed", 100*measured.Mean/float64(promise))
	case low >= least && high <= most:
		return Holds, ""
	case busy > busyLimit && measured.Mean < least:
		return CannotSay, fmt.Sprintf("only %.1f %% of the promise passed, and the processors were busy for %.0f %% of the time; free them",
			100*measured.Mean/float64(promise), 100*busy)
	case high >= least:
		return CannotSay, fmt.Sprintf("the interval is %.1f to %.1f %% of the promise, partly outside of 98 to 101 %%; more --repetitions or a longer --duration narrow it",
			100*low/float64(promise), 100*high/float64(promise))
	case c.tighter != "":
		return CannotSay, "another scope that this traffic belongs to may allow less: " + c.tighter
	case c.unknown != "":
		return CannotSay, "nothing shows what the path carries without the limit: " + c.unknown
	}
	return Under, fmt.Sprintf("%.1f %% of the promise passed, and the path carries %s without the limit",
		100*measured.Mean/float64(promise), c.capacity)
}

func values(samples []Sample) []float64 {
	var all []float64
	for _, s := range samples {
		all = append(all, s.value())
	}
	return all
}
