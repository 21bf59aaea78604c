// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"testing"

	"weir/kernel/device"
	"weir/kernel/tc"
)

func TestATreeIsNamed(t *testing.T) {
	at := func(kind string, parent, handle tc.Handle) tc.Raw {
		return tc.Raw{Kind: kind, Parent: parent, Handle: handle}
	}
	one := tc.MakeHandle(1, 0)
	for _, test := range []struct {
		want string
		tree device.Tree
	}{
		{"", device.Tree{}},
		{"", device.Tree{Qdiscs: []tc.Raw{at("noqueue", tc.Root, 0)}}},
		{"noqueue", device.Tree{Qdiscs: []tc.Raw{at("noqueue", tc.Root, one)}}},
		{"fq_codel", device.Tree{Qdiscs: []tc.Raw{at("fq_codel", tc.Root, one)}}},
		{"pfifo_fast, the kernel's choice", device.Tree{Qdiscs: []tc.Raw{at("pfifo_fast", tc.Root, 0)}}},
		{"mq with 2 queues of fq_codel, the kernel's choice", device.Tree{Qdiscs: []tc.Raw{
			at("mq", tc.Root, 0), at("fq_codel", 1, 0), at("fq_codel", 2, 0)}}},
		{"prio with 2 queues", device.Tree{Qdiscs: []tc.Raw{
			at("prio", tc.Root, one), at("pfifo", one|1, 0), at("sfq", one|2, 0)}}},
		{"htb with 2 classes and 1 filter", device.Tree{
			Qdiscs:  []tc.Raw{at("htb", tc.Root, one), at("pfifo", one|2, 0)},
			Classes: []tc.Raw{at("htb", tc.Root, one|1), at("htb", one|1, one|2)},
			Filters: []tc.Raw{at("u32", one, 1)}}},
	} {
		if got := test.tree.String(); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}
