// SPDX-License-Identifier: Apache-2.0

package native

import (
	"time"

	"weir/kernel/tcpinfo"
	"weir/lab/traffic"
)

// arrived is how many data segments a receiver's kernel has got over time, in order or not. What an
// application reads comes in bursts where a segment was missing: nothing while TCP waits for the
// repair, then at once all that it held back. One goroutine owns it.
type arrived struct {
	all []arrival // the first of them is zero
}

type arrival struct {
	at       time.Duration // since the flow began
	segments uint64
}

// observe takes in one sample of the receiver's. Kernels before 4.6 do not tell.
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
		last.at = at // nothing came for longer
		return
	}
	a.all = append(a.all, arrival{at, segments})
}

// by is how many segments had come by a time, between two samples in proportion.
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

// spread divides octets that a receiver has read within so many intervals by when their segments
// came; nil where that is not known. Segments that came twice or damaged count as others do, which
// matters where there are many of them at one time alone.
func (a *arrived) spread(octets uint64, intervals int) []uint64 {
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
