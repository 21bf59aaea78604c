// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"strings"
	"testing"

	"weir/modules/ioam/collect"
)

// A path reports a node with a clock behind that of the previous one.
func TestAPathTellsOfClocksThatDisagree(t *testing.T) {
	at := func(ns int64) collect.Optional[int64] { return collect.Optional[int64]{Value: ns, Known: true} }
	for _, test := range []struct {
		second int64
		want   string
	}{{1500, ""}, {500, "the node behind 1 received 3 packets earlier"}} {
		var s collect.Summary
		for range 3 {
			s.Add(&collect.Record{Traces: []collect.Trace{{Namespace: 7, Hops: []collect.Hop{{Node: 1, Received: at(1000)}, {Node: 2, Received: at(test.second)}}}}})
		}
		if note := pathTable(s.Paths()[0]).Note; !strings.Contains(note, test.want) || (note == "") != (test.want == "") {
			t.Errorf("%d: %q", test.second, note)
		}
	}
}
