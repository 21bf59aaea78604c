// SPDX-License-Identifier: Apache-2.0

package native

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/kernel/probe"
	"weir/kernel/testutil"
	"weir/lab/traffic"
	"weir/lab/traffic/workload"
)

func transfers(octets uint64, perSecond float64) traffic.Flow {
	sizes := workload.Sizes{Name: "two", Points: []workload.Point{{Octets: 1, Share: 0.1}, {Octets: float64(octets), Share: 1}}}
	return traffic.Flow{Name: "web", Kind: traffic.Transfers, Streams: 1, Duration: 3 * time.Second, Congestion: "reno",
		Load: &workload.Load{Sizes: sizes, PerSecond: perSecond, Drain: 2500 * time.Millisecond, Seed: 3}}
}

// Every transfer of the plan opens a connection of its own, by the kernel's count, and comes whole.
func TestTransfersComeWhole(t *testing.T) {
	p := newPath(t)
	for _, family := range []int{4, 6} {
		f := transfers(300_000, 60)
		before := activeOpens(t, p.from[family])
		r := p.run(t, family, f)
		plan := f.Load.Plan(f.Duration)
		if len(r.Transfers) != len(plan) || len(plan) < 10 {
			t.Fatalf("%d transfers have begun of %d", len(r.Transfers), len(plan))
		}
		var octets uint64
		for i, transfer := range r.Transfers {
			if transfer.Octets != plan[i].Octets || transfer.Due != plan[i].At || transfer.Begun < transfer.Due || transfer.Took <= 0 {
				t.Errorf("transfer %d: %+v, planned %+v", i, transfer, plan[i])
			}
			octets += transfer.Octets
		}
		s := r.Streams[0]
		if s.ReceivedBytes != octets || sum(s.Received) != octets {
			t.Errorf("%d bytes came of %d, %d of them by intervals", s.ReceivedBytes, octets, sum(s.Received))
		}
		if opened := activeOpens(t, p.from[family]) - before; opened != len(plan) {
			t.Errorf("the kernel opened %d connections for %d transfers", opened, len(plan))
		}
		if r.RTT.Count() != uint64(len(plan)) || s.SentSegments < uint64(len(plan)) || s.MeanRTT <= 0 || r.Congestion != "reno" || !r.LossEventsExact {
			t.Errorf("%d round-trip times, %d segments, mean %s, by %q, exact %v", r.RTT.Count(), s.SentSegments, s.MeanRTT, r.Congestion, r.LossEventsExact)
		}
	}
}

// Where no answer ever comes, all transfers begin nevertheless, and none is complete.
func TestTransfersDoNotWaitForEachOther(t *testing.T) {
	testutil.Need(t, "netem", probe.Netem())
	p := newPath(t)
	if out, err := inside(p.to[4].Namespace, "tc", "qdisc", "add", "dev", "b", "root", "netem", "loss", "100%"); err != nil {
		t.Fatalf("tc: %v: %s", err, out)
	}
	f := transfers(1000, 60)
	r := p.run(t, 4, f)
	if plan := f.Load.Plan(f.Duration); len(r.Transfers) != len(plan) || len(plan) < 10 {
		t.Fatalf("%d transfers have begun of %d", len(r.Transfers), len(plan))
	}
	for i, transfer := range r.Transfers {
		if transfer.Took != 0 {
			t.Errorf("transfer %d took %s over a path that is cut", i, transfer.Took)
		}
	}
	if r.Streams[0].ReceivedBytes != 0 {
		t.Errorf("%d bytes came over a path that is cut", r.Streams[0].ReceivedBytes)
	}
}

// A transfer that the flow's end cuts off is unfinished, and no failure.
func TestTransfersThatAreCutOffAreUnfinished(t *testing.T) {
	p := newPath(t)
	f := transfers(1<<40, 20)
	f.Load.Sizes.Points[0] = workload.Point{Octets: 1 << 39, Share: 0.1}
	r := p.run(t, 4, f)
	if len(r.Transfers) == 0 || r.Streams[0].ReceivedBytes == 0 {
		t.Fatalf("%d transfers, %d bytes", len(r.Transfers), r.Streams[0].ReceivedBytes)
	}
	for i, transfer := range r.Transfers {
		if transfer.Took != 0 {
			t.Errorf("transfer %d of %d bytes is complete after %s", i, transfer.Octets, transfer.Took)
		}
	}
}

// activeOpens is how many TCP connections the namespace has opened.
func activeOpens(t *testing.T, at traffic.Endpoint) int {
	t.Helper()
	text, err := inside(at.Namespace, "cat", "/proc/thread-self/net/snmp")
	must(t, err)
	var names, values []string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] == "Tcp:" {
			names, values = values, fields
		}
	}
	for i, name := range names {
		if name == "ActiveOpens" {
			n, err := strconv.Atoi(values[i])
			must(t, err)
			return n
		}
	}
	t.Fatalf("no ActiveOpens in %q", text)
	return 0
}
