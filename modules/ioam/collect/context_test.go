// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"slices"
	"testing"

	"weir/modules/ioam/codec"
)

// A context in the first node's opaque state moves to the record.
func TestOpaqueStateTellsAContext(t *testing.T) {
	const schema = 7
	want := TraceContext{Version: 1, Trace: [16]byte{2, 3}, Parent: [8]byte{4, 5}, Flags: 1}
	state := append(append(append([]byte{1}, want.Trace[:]...), want.Parent[:]...), 1, 0, 0)
	for name, test := range map[string]struct {
		schema   uint32
		state    []byte
		hop      int
		optional bool
	}{
		"a context":       {schema, state, 0, true},
		"another schema":  {schema + 1, state, 0, false},
		"another length":  {schema, state[:24], 0, false},
		"of another node": {schema, state, 1, false},
		"padding":         {schema, append(slices.Clone(state[:27]), 1), 0, false},
		"zeros":           {schema, make([]byte, 28), 0, false},
	} {
		trace := codec.NewTrace(1, codec.HopLimitNode|codec.Opaque, 0, 0)
		for i := range 2 {
			n := codec.Node{ID: uint32(2 - i), Schema: codec.None24}
			if 1-i == test.hop {
				n.Schema, n.Opaque = test.schema, test.state
			}
			trace.Nodes = append(trace.Nodes, n)
		}
		r := Record{Context: TraceContext{Version: 9}} // context of a request
		if err := r.Decode(POSIX, 0, codec.AppendHeader(nil, 17, trace)); err != nil {
			t.Fatal(err)
		}
		r.TakeContext(schema)
		h := r.Traces[0].Hops[test.hop]
		if optional := r.Context == want; optional != test.optional || optional == h.Schema.Known || optional != (h.State == nil) {
			t.Errorf("%s: told %s, the node's state is %v", name, r.Context, h.State)
		}
	}
}
