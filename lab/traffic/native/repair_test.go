// SPDX-License-Identifier: Apache-2.0

package native

import (
	"fmt"
	"testing"
	"time"

	"weir/kernel/testutil"
	"weir/lab/traffic"
)

// TestNoIntervalHasWhatWasHeldBack loses segments 400 ms from the sender. Until the retransmission
// arrives, the receiver's application reads nothing, then several intervals' worth at once. By
// segment arrival times no interval exceeds the link's rate.
func TestNoIntervalHasWhatWasHeldBack(t *testing.T) {
	const rate = 10e6
	tc, ethtool := testutil.Command(t, "tc"), testutil.Command(t, "ethtool")
	p := newPath(t)
	for _, end := range []struct {
		at     traffic.Endpoint
		device string
		more   []string
	}{{p.from[4], "a", []string{"rate", "10mbit", "limit", "5000", "loss", "0.1%"}}, {p.to[4], "b", nil}} {
		text, err := inside(end.at.Namespace, tc, append([]string{"qdisc", "add", "dev", end.device, "root", "netem", "delay", "200ms"}, end.more...)...)
		if err != nil {
			testutil.Need(t, "netem", fmt.Errorf("%w: %s", err, text))
		}
		_, err = inside(end.at.Namespace, ethtool, "-K", end.device, "tso", "off", "gso", "off")
		must(t, err)
	}
	f := bulk(1)
	f.Congestion, f.Duration = "reno", 6*time.Second
	s := p.run(t, 4, f).Streams[0]
	for tries := 1; s.Retransmits == 0 && tries < 5; tries++ { // no loss so far
		s = p.run(t, 4, f).Streams[0]
	}
	if s.Retransmits == 0 || s.ReceivedBytes == 0 {
		t.Fatalf("%d bytes came, and nothing was lost that there could be a repair of", s.ReceivedBytes)
	}
	most := uint64(rate / 8 * traffic.RateInterval.Seconds())
	for i, octets := range s.Received {
		if octets > 2*most { // one may be a sample late
			t.Errorf("interval %d has %d bytes, and the link carries %d in that time: %v", i, octets, most, s.Received)
			break
		}
	}
	if got := sum(s.Received); got != s.ReceivedBytes {
		t.Errorf("intervals add up to %d bytes of %d", got, s.ReceivedBytes)
	}
}
