// SPDX-License-Identifier: Apache-2.0

package class

import (
	"net/netip"
	"strings"
	"testing"

	"weir/internal/dscp"
	"weir/internal/fault"
	"weir/kernel/hops"
)

// The verdict and the status distinguish a path that is known up to its end, in part, and not.
func TestVerdictOfATrace(t *testing.T) {
	to, router := netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("198.51.100.1")
	exceeded := func(n int, d dscp.DSCP) hops.Hop {
		return hops.Hop{Hop: n, Address: router, Answer: hops.Answer(hops.Exceeded), DSCP: d, Known: true}
	}
	closed := hops.Hop{Hop: 2, Address: to, Answer: hops.Answer(hops.Unreachable), DSCP: dscp.LowEffort, Known: true}
	prohibited := closed
	prohibited.Address = router
	for _, test := range []struct {
		name, verdict, note string
		hops                []hops.Hop
		status              fault.Status
	}{
		{"the destination reports it", keeps, "", []hops.Hop{exceeded(1, dscp.LowEffort), closed}, fault.OK},
		{"a silent hop before it", keeps, "", []hops.Hop{{Hop: 1, Answer: hops.Silent}, closed}, fault.OK},
		{"the destination is silent", "unchanged up to hop 1", "did not answer",
			[]hops.Hop{exceeded(1, dscp.LowEffort), {Hop: 2, Answer: hops.Silent}}, fault.Testbed},
		{"a router rejects it", "unchanged up to hop 2", "did not answer", []hops.Hop{exceeded(1, dscp.LowEffort), prohibited}, fault.Testbed},
		{"the destination answers without it", "unchanged up to hop 1", "answered without",
			[]hops.Hop{exceeded(1, dscp.LowEffort), {Hop: 2, Address: to, Answer: hops.Reset}}, fault.OK},
		{"a router changes it", changes, "did not answer", []hops.Hop{exceeded(1, dscp.BestEffort), {Hop: 2, Answer: hops.Silent}}, fault.Failed},
		{"nothing answers", untested, "", []hops.Hop{{Hop: 1, Answer: hops.Silent}}, fault.Testbed},
		{"only the destination answers, without it", untested, "", []hops.Hop{{Hop: 1, Address: to, Answer: hops.Opened}}, fault.Testbed},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := judge(hops.Path{To: to, Protocol: "udp", Sent: dscp.LowEffort, Hops: test.hops})
			if p.Verdict != test.verdict {
				t.Errorf("verdict %q, want %q", p.Verdict, test.verdict)
			}
			if note := p.table().Note; !strings.Contains(note, test.note) || test.note == "" && note != "" {
				t.Errorf("note %q, want %q in it", note, test.note)
			}
			if status := fault.Of(overall([]tracedPath{p})); status != test.status {
				t.Errorf("status %d, want %d", status, test.status)
			}
		})
	}
}
