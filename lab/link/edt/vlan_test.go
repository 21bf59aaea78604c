// SPDX-License-Identifier: Apache-2.0

package edt

import (
	"bytes"
	"testing"

	"github.com/cilium/ebpf"

	"weir/kernel/testutil"
	"weir/lab/link"
	"weir/lab/link/inkernel"
)

// A queue with ECN marks an IP packet, and leaves frames with VLAN tags in their data unchanged.
func TestTaggedFramesAreNotMarked(t *testing.T) {
	testutil.NeedRoot(t)
	ip := append([]byte{0x45, 1, 0, 100, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2}, make([]byte, 80)...)
	for _, test := range []struct {
		name   string
		types  []byte // from the first EtherType to the IP header
		marked bool
	}{
		{"IPv4", []byte{8, 0}, true},
		{"QinQ, VLAN 5", []byte{0x88, 0xa8, 0, 200, 0x81, 0, 0, 5, 8, 0}, false},
		{"QinQ, VLAN 6", []byte{0x88, 0xa8, 0, 200, 0x81, 0, 0, 6, 8, 0}, false},
		{"priority of IPv4", []byte{0x81, 0, 0x45, 1, 8, 0}, false},
	} {
		w := &way{Path: inkernel.Path{Direction: link.Direction{Rate: 8000, Queue: link.Queue{Bytes: 1 << 20, ECN: 1}}}}
		if err := w.load(0); err != nil {
			t.Fatal(err)
		}
		frame := append(append(make([]byte, 12), test.types...), ip...)
		var last []byte
		for range 3 { // the first is sent, the second waits, the third meets a queue
			options := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+64)}
			if _, err := w.objects.EdtDecide.Run(options); err != nil {
				t.Fatal(err)
			}
			last = options.DataOut
		}
		var n wayEdtCounters
		if err := w.objects.EdtCounts.Lookup(uint32(0), &n); err != nil {
			t.Fatal(err)
		}
		if changed := !bytes.Equal(last, frame); changed != test.marked || (n.Marked == 1) != test.marked {
			t.Errorf("%s: changed %t, %d marked, want %t:\n%x, was\n%x", test.name, changed, n.Marked, test.marked, last, frame)
		}
		if err := w.objects.Close(); err != nil {
			t.Error(err)
		}
	}
}
