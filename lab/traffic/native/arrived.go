// SPDX-License-Identifier: Apache-2.0

package native

import (
	"time"

	"weir/kernel/tcpinfo"
	"weir/lab/traffic"
)

// arrived holds the number of data segments that a receiver's kernel got over time, in order or
// not. After a loss an application reads bursts: nothing while TCP waits for the retransmission,
// then all at once. One goroutine owns it.
type arrived struct {
	all []arrival // the first is zero
}

type arrival struct {
	at       time.Duration // since the flow began
	segments uint64
}

// observe adds one sample of the receiver's TCP_INFO. Kernels before 4.6 do not count segments.
func (a *arrived) observe(at time.Duration, info tcpinfo.Info) {
	if !info.Has(tcpinfo.DataSegmentsIn) {
		return
	}
	if len(a.all) == 0 {
		a.all = append(a.all, arrival{})
	}
	last := &a.all[len(a.all)-1]
	segments := last.segments + uint64(info.Data_segs_in-uint32(last.segments)) // the kernel's has 32 bits
	if n := len(a.all); n >= 2 && last.segments == segments && a.all[n-2].segments == segments {
		last.at = at // extends the span without arrivals
		return
	}
	a.all = append(a.all, arrival{at, segments})
}

// by is the number of segments that had arrived by a time, interpolated between samples.
func (a *arrived) by(t time.Duration) float64 {
	if len(a.all) == 0 {
		return 0
	}
	before := a.all[0]
	for _, now := range a.all[1:] {
		if now.at >= t && now.at > before.at {
			return float64(before.segments) + float64(now.segments-before.segments)*float64(t-before.at)/float64(now.at-before.at)
		}
		before = now
	}
	return float64(before.segments)
}

// apportion divides the bytes read in all intervals by the arrival times of their segments; nil if
// those are unknown. Duplicate and damaged segments count too, which matters only if many occur at
// once.
func (a *arrived) apportion(octets uint64, intervals int) []uint64 {
	all := a.by(time.Duration(intervals) * traffic.RateInterval)
	if all == 0 || intervals == 0 {
		return nil
	}
	bins := make([]uint64, intervals)
	var before uint64
	for i := range bins {
		now := uint64(float64(octets)*a.by(time.Duration(i+1)*traffic.RateInterval)/all + 0.5)
		if i == intervals-1 {
			now = octets
		}
		now = max(before, min(now, octets))
		bins[i], before = now-before, now
	}
	return bins
}
