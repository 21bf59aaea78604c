// SPDX-License-Identifier: Apache-2.0

package class

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"weir/internal/dscp"

	"github.com/cilium/ebpf"

	"weir/bpf/headers"
	"weir/core/match"
	"weir/core/module"
	"weir/core/policy"
	"weir/kernel/testutil"
)

// With IPv6 extension headers in the request or in the reply, the class applies to the flow of the
// request and to no other flow.
func TestAnswersGoByPortsBehindExtensionHeaders(t *testing.T) {
	testutil.NeedRoot(t)
	const asks, here, ethernet, ip6, other = "2001:db8:51::9", "2001:db8:9::9", 14, 40, 9
	m, err := loadMarker(1, true)
	must(t, err)
	t.Cleanup(func() { must(t, m.close()) })
	treatment := &Treatment{Class: asAsked, Asked: []dscp.DSCP{dscp.LowEffort}}
	bound := module.Bound{Treatment: treatment, Scope: policy.Scope{Name: "a", Treatments: policy.Treatments{moduleName: treatment}}}
	bound.Binding.Key = match.OfPrefix(netip.MustParsePrefix(asks + "/128"))
	must(t, m.fill(module.State{}, module.State{Scopes: []module.Bound{bound}}, match.Key{}))
	frame := func(from, to string, source, destination uint16, chain headers.Chain) []byte {
		f := datagram(from, to, dscp.BestEffort)
		if from == asks {
			f = datagram(from, to, dscp.LowEffort)
		}
		binary.BigEndian.PutUint16(f[ethernet+ip6:], source)
		binary.BigEndian.PutUint16(f[ethernet+ip6+2:], destination)
		return headers.Insert(f, chain.Headers...)
	}
	answered := func(f []byte) dscp.DSCP {
		t.Helper()
		out := make([]byte, len(f)+64)
		run := ebpf.RunOptions{Data: f, DataOut: out, Repeat: 1}
		_, err := m.program.Run(&run)
		must(t, err)
		return dscp.DSCP((run.DataOut[ethernet]<<4 | run.DataOut[ethernet+1]>>4) >> 2)
	}
	port, plain := uint16(1000), headers.Chain{Name: "no extension header"}
	for _, c := range append(headers.Chains(), plain) {
		for _, way := range []struct {
			name        string
			ask, answer headers.Chain
		}{{"asked", c, plain}, {"answered", plain, c}, {"both", c, c}} {
			port++
			_, err := m.ask.Run(&ebpf.RunOptions{Data: frame(asks, here, port, other, way.ask), Repeat: 1})
			must(t, err)
			want := dscp.LowEffort
			if way.ask.Later || way.answer.Later { // packets without ports
				want = dscp.BestEffort
			}
			if got := answered(frame(here, asks, other, port, way.answer)); got != want {
				t.Errorf("%s, %s: DSCP %d, want %d", c.Name, way.name, got, want)
			}
			if got := answered(frame(here, asks, other, port+10_000, way.answer)); got != dscp.BestEffort {
				t.Errorf("%s, %s: another flow has DSCP %d", c.Name, way.name, got)
			}
		}
	}
}
