// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	"weir/kernel/testutil"
	"weir/modules/fleet/fleettest"
)

// fleetRate is the shared limit in bit/s.
const fleetRate = 60e6

// newFleet starts a server and a daemon on each host.
func newFleet(t *testing.T, hosts int, keys string) *fleettest.Lab {
	t.Helper()
	testutil.Command(t, "iperf3")
	l := fleettest.New(t, binary, hosts)
	l.Serve()
	l.Limit("60Mbit")
	l.Enroll()
	for _, h := range l.Hosts {
		h.Follow(keys)
	}
	l.Joined()
	return l
}

// Through returns the share of the limit that comes through the bottleneck, and that of each host,
// in the given time.
func through(t *testing.T, l *fleettest.Lab, d time.Duration) (sum float64, each []float64) {
	t.Helper()
	begin, before := time.Now(), l.Arrived()
	var sent []uint64
	for _, h := range l.Hosts {
		sent = append(sent, h.Sent())
	}
	time.Sleep(d)
	share := func(bytes uint64) float64 { return float64(bytes) * 8 / time.Since(begin).Seconds() / fleetRate }
	for i, h := range l.Hosts {
		each = append(each, share(h.Sent()-sent[i]))
	}
	return share(l.Arrived() - before), each
}

// eventually waits until the shares of the hosts are near those wanted.
func eventually(t *testing.T, l *fleettest.Lab, what string, want ...float64) {
	t.Helper()
	var sum float64
	var each []float64
	for range 60 {
		sum, each = through(t, l, time.Second)
		if sum > 1.02 {
			t.Fatalf("%s: %.3f of the limit passed in a second", what, sum)
		}
		ok := true
		for i, w := range want {
			ok = ok && each[i] > w-0.1 && each[i] < w+0.1
		}
		if ok {
			t.Logf("%s: %.3f of the limit, hosts %.3f", what, sum, each)
			return
		}
	}
	t.Fatalf("%s: hosts have %.3f of the limit, want %.3f", what, each, want)
}

func TestHostsShareALimit(t *testing.T) {
	l := newFleet(t, 2, ", min: 6Mbit")
	stop := l.Hosts[0].Send(4)
	eventually(t, l, "one host sends", 0.9, 0)
	stopOther := l.Hosts[1].Send(4)
	eventually(t, l, "both send", 0.5, 0.5)
	stop()
	eventually(t, l, "the other sends", 0, 0.9)
	l.Hosts[0].Kill()
	eventually(t, l, "the first host's daemon is killed", 0, 0.9)
	stopOther()
	stop = l.Hosts[0].Send(4)
	defer stop()
	eventually(t, l, "without its daemon the first host has its guarantee", 0.1, 0)
}
