// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/bpf/headers"
	"weir/modules/ioam/codec"
)

// onlyFlow returns and deletes the single flow of a map; zero without one.
func onlyFlow[V any](t *testing.T, m *ebpf.Map) ioamIoamEdgeKey {
	t.Helper()
	var all []ioamIoamEdgeKey
	var key ioamIoamEdgeKey
	var value V
	entries := m.Iterate()
	for entries.Next(&key, &value) {
		all = append(all, key)
	}
	if err := entries.Err(); err != nil || len(all) > 1 {
		t.Fatalf("flows %+v: %v", all, err)
	}
	if len(all) == 0 {
		return ioamIoamEdgeKey{}
	}
	if err := m.Delete(&all[0]); err != nil {
		t.Fatal(err)
	}
	return ioamIoamEdgeKey{Protocol: all[0].Protocol, SourcePort: all[0].SourcePort, DestinationPort: all[0].DestinationPort}
}

// Both edges identify a flow by the same ports, for all extension headers of its packets.
func TestAFlowIsKnownBehindExtensionHeaders(t *testing.T) {
	exit := full
	exit.Remove = true
	first, last := newBench(t, aNode(full)), newBench(t, aNode(exit))
	for _, option := range []Option{
		{Type: codec.EdgeToEdge, Namespace: 123, Edge: codec.Sequence64},
		{Type: codec.DirectExport, Namespace: 123, Extensions: codec.ExportSequence, Fields: codec.HopLimitNode},
	} {
		first.again(aNode(full), aScope(Encapsulation{Options: []Option{option}}))
		for _, c := range append(headers.Chains(), headers.Chain{Name: "no extension header"}) {
			in := headers.Insert(packet(0, nil, 40), c.Headers...)
			verdict, got := first.run(first.objects.IoamEgress, in, skb{From: 1})
			if verdict != unspec || len(got) == len(in) {
				t.Fatalf("%s: verdict %d, %x became %x", c.Name, int32(verdict), in, got)
			}
			want := ioamIoamEdgeKey{Protocol: headers.Read(in[ethernet:]).Protocol, SourcePort: 1000, DestinationPort: 2000}
			if c.Later {
				want.SourcePort, want.DestinationPort = 0, 0
			}
			if sent := onlyFlow[ioamIoamEdgeSent](t, first.objects.IoamEdgesSent); sent != want {
				t.Errorf("%s: sent as %+v, want %+v", c.Name, sent, want)
			}
			if option.Type != codec.EdgeToEdge {
				continue
			}
			if verdict, _ := last.run(last.objects.IoamIngress, got, skb{}); verdict != unspec {
				t.Errorf("%s: verdict %d at the end", c.Name, int32(verdict))
			}
			if received := onlyFlow[ioamIoamEdgeReceived](t, last.objects.IoamEdgesReceived); received != want {
				t.Errorf("%s: received as %+v, want %+v", c.Name, received, want)
			}
		}
	}
}

// Requests are read behind extension headers, if options of others end there or none do.
func TestRequestsAreReadBehindExtensionHeaders(t *testing.T) {
	exit := full
	exit.Remove = true
	on := aNode(exit)
	on.Node.TraceContext = true
	b := newBench(t, on)
	request := "GET / HTTP/1.1\r\ntraceparent: " + valid + "\r\n\r\n"
	for _, c := range append(headers.Chains(), headers.Chain{Name: "no extension header"}) {
		in := headers.Insert(segment(nil, request), c.Headers...)
		if verdict, _ := b.run(b.objects.IoamIngress, in, skb{}); verdict != unspec {
			t.Fatalf("%s: verdict %d", c.Name, int32(verdict))
		}
		want := ioamIoamEdgeKey{Protocol: unix.IPPROTO_TCP, SourcePort: 1000, DestinationPort: 2000}
		if c.Later {
			want = ioamIoamEdgeKey{}
		}
		if got := onlyFlow[ioamIoamContext](t, b.objects.IoamContexts); got != want {
			t.Errorf("%s: a context of %+v, want %+v", c.Name, got, want)
		}
	}
}
