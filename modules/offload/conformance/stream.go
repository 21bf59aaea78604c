// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/netip"
	"testing"
	"time"

	"weir/kernel/testutil"
)

// Stream sends packets from the left to destinations on the right and counts the outputs by the
// last byte of their link-layer destination. All must arrive.
func (b *Bench) Stream(t testing.TB, dests []netip.Addr, volleys int) map[byte]int {
	t.Helper()
	const few = 32
	hops := map[byte]int{}
	first := uint32(lastNumber / 2)
	for range volleys {
		missing := map[uint32]bool{}
		for i := range few {
			f := b.plain(0, dests[i%len(dests)].String())
			missing[first] = true
			if err := b.sockets[0].send(f.bytes(first)); err != nil {
				t.Fatal(err)
			}
			first++
		}
		testutil.Eventually(t, 10*time.Second, "the arrival of every packet", func() bool {
			frames, err := b.sockets[1].receive()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range frames {
				if n, ours := numberOf(f); ours && missing[n] {
					delete(missing, n)
					hops[f[5]]++
				}
			}
			return len(missing) == 0
		})
	}
	return hops
}
