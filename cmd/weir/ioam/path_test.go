// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"strings"
	"testing"

	"weir/modules/ioam/collect"
)

// Where the clock of a node is behind that of the one in front of it, the path says so.
func TestAPathTellsOfClocksThatDisagree(t *testing.T) {
	at := func(ns int64) collect.Optional[int64] { return collect.Optional[int64]{Value: ns, Known: true} }
	for _, test := range []struct {
		second int64
		want   string
	}{{1500, ""}, {500, "the node behind 1 has received 3 packets before it"}} {
		var s collect.Summary
		for range 3 {
			s.Add(&collect.Record{Traces: []collect.Trace{{Namespace: 7, Hops: []collect.Hop{{Node: 1, Received: at(1000)}, {Node: 2, Received: at(test.second)}}}}})
		}
		if note := pathTable(s.Paths()[0]).Note; !strings.Contains(note, test.want) || (note == "") != (test.want == "") {
			t.Errorf("%d: %q", test.second, note)
		}
	}
}
