// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"fmt"
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"weir/kernel/ethtool"
	"weir/record/hist"
	"weir/tester"
	"weir/tester/frame"
	"weir/tester/packet"
)

// Progress returns the frames sent so far.
func (l *live) Progress() tester.Generation {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return l.account
	}
	g, err := l.generation(false)
	if err != nil {
		g.Ended = err.Error()
	}
	return g
}

func (l *live) read() (generatorAccount, error) {
	var a generatorAccount
	if err := l.objects.Accounts.Lookup(uint32(0), &a); err != nil {
		return a, fmt.Errorf("read generator: %w", err)
	}
	return a, nil
}

// generation reads the account. At the end no frame is in flight, so the counter of the device is
// exact.
func (l *live) generation(end bool) (tester.Generation, error) {
	g := tester.Generation{Mechanism: Live, LateAfter: packet.LateAfter, Lateness: &hist.Histogram{}}
	a, err := l.read()
	if err != nil {
		return g, err
	}
	switch a.Ended {
	case generatorEndedENDED_SCHEDULE:
		g.Ended = "schedule"
	case generatorEndedENDED_FRAMES:
		g.Ended = "frame limit"
	case generatorEndedENDED_DURATION:
		g.Ended = frame.Ended(l.plan)
	}
	if g.Sent, err = l.sent(); err != nil {
		return g, err
	}
	var lateness generatorLateness
	if err := l.objects.Latenesses.Lookup(uint32(0), &lateness); err != nil {
		return g, fmt.Errorf("read generator: %w", err)
	}
	if !l.part {
		g.Refused = readDevice(l.port).refused(l.before, frames(g), end)
	}
	g.Lateness, err = hist.FromCounts(lateness.Buckets[:], a.LatenessMin, a.LatenessMax, a.LatenessSum)
	return g, err
}

func (l *live) sent() ([]tester.Sent, error) {
	keys := make([]uint32, len(l.plan))
	values := make([]generatorProgress, len(l.plan))
	var cursor ebpf.MapBatchCursor
	for read := 0; read < len(values); {
		n, err := l.objects.Progresses.BatchLookup(&cursor, keys[read:], values[read:], nil)
		read += n
		if err != nil && read < len(values) {
			return nil, fmt.Errorf("read generator: %w", err)
		}
	}
	sent := make([]tester.Sent, len(values))
	for i, p := range values {
		sent[i] = tester.Sent{
			Stream: l.plan[i].ID, Frames: p.Frames, WireBytes: p.WireBytes, PayloadBytes: p.PayloadBytes,
			Late: p.Late, Skipped: p.Skipped, First: time.Duration(p.First), Last: time.Duration(p.Last),
		}
	}
	return sent, nil
}

// deviceCounts holds the XDP counters of a veth device; other drivers have none.
type deviceCounts struct {
	known             bool
	accepted, errored uint64
}

func readDevice(port Port) deviceCounts {
	var c deviceCounts
	stats, err := ethtool.Stats(port.Namespace, port.Device)
	if err != nil {
		return c
	}
	for name, value := range stats {
		switch {
		case strings.HasSuffix(name, "xdp_xmit_errors"):
			c.errored += value
		case strings.HasPrefix(name, "tx_queue") && strings.HasSuffix(name, "xdp_xmit"):
			c.accepted += value
			c.known = true
		}
	}
	return c
}

// refused returns the number of frames that the device did not accept since before. The counter
// includes drops of a full ring, but none of a device that is down or of a peer without XDP: in the
// end these are missing among the accepted frames.
func (c deviceCounts) refused(before deviceCounts, frames uint64, end bool) uint64 {
	if !c.known || !before.known {
		return 0
	}
	refused, accepted := c.errored-before.errored, c.accepted-before.accepted
	if end && frames > accepted {
		refused = max(refused, frames-accepted)
	}
	return refused
}
