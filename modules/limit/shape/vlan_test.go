// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"weir/internal/direction"
	"weir/kernel/clock"
	"weir/kernel/testutil"
)

// tagged inserts VLAN tags (TPID and TCI) into an Ethernet frame, outermost first.
func tagged(f []byte, tags ...uint32) []byte {
	var all []byte
	for _, tag := range tags {
		all = binary.BigEndian.AppendUint32(all, tag)
	}
	return slices.Insert(slices.Clone(f), 12, all...)
}

// A delayed frame with VLAN tags in its data is neither rewritten nor exempt from its delay, for
// any tags and for frames with a wrong protocol.
func TestTaggedFramesAreDelayedUnchanged(t *testing.T) {
	const (
		qinq, vlan = 0x88a8 << 16, 0x8100 << 16
		standing   = 150 * time.Hour // beyond the mark threshold
	)
	four, six := datagram(one4, to4, 500), datagram(one6, to6, 500)
	for _, ecn := range []byte{0, 1, 2, 3} {
		four[15] = four[15]&^3 | ecn
		six[15] = six[15]&^0x30 | ecn<<4
		for name, f := range map[string][]byte{
			"QinQ, VLAN 4":         tagged(four, qinq|200, vlan|4),
			"QinQ, VLAN 5":         tagged(four, qinq|200, vlan|5),
			"QinQ, VLAN 6":         tagged(four, qinq|200, vlan|6),
			"802.1Q twice":         tagged(four, vlan|200, vlan|5),
			"priority of version":  tagged(four, qinq|0x4001, vlan|0x4002),
			"three tags":           tagged(four, qinq|1, qinq|2, vlan|2),
			"IPv6 in QinQ":         tagged(six, qinq|200, vlan|5),
			"IPv6, priority":       tagged(six, vlan|0x6011, vlan|0x6022),
			"one tag":              tagged(four, vlan|1),
			"MPLS":                 append(append(slices.Clone(four[:12]), 0x88, 0x47, 0, 1, 1, 64), four[14:]...),
			"IPv4 type, IPv6 data": append(slices.Clone(four[:14]), six[14:]...),
			"IPv6 type, IPv4 data": append(slices.Clone(six[:14]), four[14:]...),
		} {
			b := newBench(t)
			l := long(1, 0)
			if err := b.p.set(loopback, l.config(Fq)); err != nil {
				t.Fatal(err)
			}
			b.stateOf(loopback, standing, standing, 2)
			b.flows(shapeShaperFlow{FinishNs: moment(t, 1000*time.Hour)})
			in, out := context{WireLen: uint32(len(f))}, context{}
			options := &ebpf.RunOptions{Data: f, Context: &in, ContextOut: &out, DataOut: make([]byte, len(f)+64)}
			if verdict, err := b.p.charge.Run(options); err != nil || verdict == 2 {
				t.Fatalf("%s: verdict %d, %v", name, int32(verdict), err)
			}
			if !bytes.Equal(options.DataOut, f) {
				t.Errorf("%s, ECN %d: the frame was changed:\n%x, was\n%x", name, ecn, options.DataOut[:64], f[:64])
			}
			if delay := time.Duration(int64(out.Tstamp) - clock.Now()); !near(delay, standing) {
				t.Errorf("%s, ECN %d: delayed by %v, want %v", name, ecn, delay, standing)
			}
		}
	}
}

// The outer tag that the kernel keeps beside the data is charged, in both directions.
func TestOuterTagIsCharged(t *testing.T) {
	for _, d := range direction.Both {
		t.Run(d.String(), func(t *testing.T) {
			const n, wire = 50, 1000
			s := newStage(t)
			l := s.shaper(d, 10*time.Second)
			s.apply(l)
			before := s.counters(l).Octets
			from, to := s.here, s.there
			if d == direction.Ingress {
				from, to = to, from
			}
			if got := s.sendFrames(from, to, n, tagged(datagram(one4, to4, wire-8), 0x88a8<<16|200, 0x8100<<16|5)); got != n {
				t.Fatalf("%d of %d frames arrived", got, n)
			}
			testutil.Eventually(t, 10*time.Second, "the frames are charged", func() bool { return s.counters(l).Octets-before >= n*wire })
			if got := s.counters(l).Octets - before; got < n*wire || got > n*wire+5000 {
				t.Errorf("%d bytes charged for %d frames of %d bytes with two tags", got, n, wire)
			}
		})
	}
}
