// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"

	"weir/core/match"
	"weir/core/module"
	"weir/core/selector"
	"weir/modules/ioam/codec"
)

// If two scopes match a packet, by address and by interface, the child decides, although lookups
// find its parent first. A shadow scope counts and leaves the decision to the other.
func TestOneScopeDecides(t *testing.T) {
	b := newBench(t, aNode(full))
	encapsulation := func(fields codec.TraceType) Encapsulation {
		return Encapsulation{Options: []Option{{Type: codec.PreallocatedTrace, Namespace: 123, Fields: fields, Nodes: 1}}}
	}
	scopes := func(parent, child string, dark string) (both []module.Bound) {
		path, device := aScope(encapsulation(codec.HopLimitNode)), aScope(encapsulation(codec.NamespaceData))
		device.Index, device.Binding = 4, selector.Binding{Key: match.OfInterface(1)}
		path.Name, device.Name = "path", "device"
		for _, s := range []*module.Bound{&path, &device} {
			if s.Name == child {
				s.Parent = parent
			}
			s.Shadow = s.Name == dark
		}
		return []module.Bound{path, device}
	}
	for _, test := range []struct {
		name                string
		parent, child, dark string
		want                codec.TraceType
		path, device        uint64 // packets counted by each scope
	}{
		{"strangers", "", "", "", codec.HopLimitNode, 1, 0},
		{"the child of the path", "path", "device", "", codec.NamespaceData, 0, 1},
		{"the child of the device", "device", "path", "", codec.HopLimitNode, 1, 0},
		{"the first in shadow", "", "", "path", codec.NamespaceData, 1, 1},
		{"the second in shadow", "", "", "device", codec.HopLimitNode, 1, 0},
		{"a child in shadow", "path", "device", "device", codec.HopLimitNode, 1, 1},
	} {
		b.again(aNode(full), scopes(test.parent, test.child, test.dark)...)
		before, err := b.scopeCounts(4)
		if err != nil {
			t.Fatal(err)
		}
		_, got := b.run(b.objects.IoamEgress, packet(0, nil, 10), skb{})
		h, err := codec.DecodeHeader(got[atOptions:])
		if err != nil || len(h.Options) != 1 {
			t.Fatalf("%s: %v, %x", test.name, err, got)
		}
		trace, err := codec.DecodeTrace(h.Options[0].Type, h.Options[0].Data)
		if err != nil || trace.Fields != test.want {
			t.Errorf("%s: the trace asks for %#x, want %#x: %v", test.name, trace.Fields, test.want, err)
		}
		path, err1 := b.scopeCounts(3)
		device, err2 := b.scopeCounts(4)
		if err1 != nil || err2 != nil || path.Packets != test.path || device.Packets-before.Packets != test.device {
			t.Errorf("%s: counted %d and %d packets, want %d and %d: %v, %v", test.name, path.Packets, device.Packets-before.Packets, test.path, test.device, err1, err2)
		}
	}
}
