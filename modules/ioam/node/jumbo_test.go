// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"os/exec"
	"testing"

	"weir/kernel/netns"
	"weir/kernel/testutil"
)

// A packet without a payload length gets no options, and is counted by this reason: a jumbogram
// without segments, and a BIG TCP packet that the kernel marks by a Hop-by-Hop header of its own.
func TestJumbogramsStayUnchanged(t *testing.T) {
	b := newBench(t, aNode(full))
	mark := []byte{6, 0, 0xc2, 4, 0, 2, 0, 0}
	for _, test := range []struct {
		name    string
		headers []byte
		context skb
		option  Option
	}{
		{"a jumbogram", nil, skb{}, aTrace},
		{"a marked packet", mark, skb{GSOSize: 20, Segs: 2}, aTrace},
		{"a marked packet, edge to edge", mark, skb{GSOSize: 20, Segs: 2}, anEdge},
	} {
		b.again(aNode(full), aScope(Encapsulation{Options: []Option{test.option}}))
		in := segment(test.headers, "a payload of two segments, more or less")
		in[ethernet+4], in[ethernet+5] = 0, 0
		_, got := b.run(b.objects.IoamEgress, in, test.context)
		c, err := b.scopeCounts(3)
		if err != nil || c.Jumbo != 1 || c.Encapsulated != 0 || !bytes.Equal(got, in) {
			t.Errorf("%s: %v, %+v, %x became %x", test.name, err, c, in, got)
		}
	}
}

// BIG TCP passes a domain. Each packet has options, or the kernel's reason is counted.
func TestBigTCPPassesADomain(t *testing.T) {
	c := newChain(t, 1500)
	for _, name := range chainNames {
		for _, dev := range []string{"left", "right"} {
			bigTCP(t, c.ns[name], dev)
		}
	}
	c.domain(t, allFields)
	c.passStream(t)
	counts := c.scope(t, "athos")
	if counts.Encapsulated+counts.Jumbo != counts.Packets {
		t.Errorf("%+v", counts)
	}
	t.Logf("%d packets of %d bytes on average, %d with options, %d marked by the kernel", counts.Packets, counts.Octets/max(counts.Packets, 1), counts.Encapsulated, counts.Jumbo)
}

// bigTCP lets a device have super-packets of 200,000 bytes, if it exists.
func bigTCP(t *testing.T, ns *netns.Namespace, dev string) {
	t.Helper()
	ip := testutil.Command(t, "ip")
	err := ns.Do(func() error {
		if exec.Command(ip, "link", "show", dev).Run() != nil {
			return nil
		}
		return exec.Command(ip, "link", "set", dev, "gso_max_size", "200000", "gro_max_size", "200000").Run()
	})
	if err != nil {
		t.Fatal(err)
	}
}
