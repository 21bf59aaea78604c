// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"sync/atomic"

	"weir/lab/link"
)

// depthBins is the number of stored intervals: ten minutes.
const depthBins = 6000

// depth holds the maximum queue length in bytes, per interval since begin. Only the thread of the
// emulated link writes it; other goroutines read it at any time.
type depth struct {
	began atomic.Int64
	bins  []atomic.Uint32
}

func newDepth(now int64) *depth {
	d := &depth{bins: make([]atomic.Uint32, depthBins)}
	d.began.Store(now)
	return d
}

// begin resets the record.
func (d *depth) begin(now int64) {
	d.began.Store(now)
	for i := range d.bins {
		d.bins[i].Store(0)
	}
}

// note records the bytes in the queue at the arrival of a frame.
func (d *depth) note(at, octets int64) {
	since := at - d.began.Load()
	i := since / int64(link.DepthInterval)
	if since < 0 || i >= depthBins {
		return
	}
	if bin := &d.bins[i]; uint32(octets) > bin.Load() {
		bin.Store(uint32(octets))
	}
}

// read returns the intervals that are over by now.
func (d *depth) read(now int64) []uint32 {
	over := min(max(0, (now-d.began.Load())/int64(link.DepthInterval)), depthBins)
	list := make([]uint32, over)
	for i := range list {
		list[i] = d.bins[i].Load()
	}
	return list
}
