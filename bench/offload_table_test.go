// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"compress/gzip"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"testing"

	"weir/modules/offload/state"
)

// fullTable reads the prefixes of a routing table, one per line, from the file named by
// WEIR_ROUTES; otherwise it makes random ones with the Internet's most frequent lengths.
func fullTable(b *testing.B) (all []netip.Prefix) {
	b.Helper()
	name := os.Getenv("WEIR_ROUTES")
	if name == "" {
		r := rand.New(rand.NewPCG(1, 2))
		for range 200_000 {
			to, _ := netip.AddrFrom4([4]byte{byte(1 + r.IntN(222)), byte(r.Uint32()), byte(r.Uint32()), 0}).Prefix([]int{16, 20, 22, 24, 24, 24}[r.IntN(6)])
			all = append(all, to)
		}
	} else {
		file, err := os.Open(name)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = file.Close() }()
		z, err := gzip.NewReader(file)
		if err != nil {
			b.Fatal(err)
		}
		for lines := bufio.NewScanner(z); lines.Scan(); {
			if to, err := netip.ParsePrefix(lines.Text()); err == nil && to.Addr().Is4() {
				all = append(all, to)
			}
		}
	}
	all = slices.DeleteFunc(all, func(p netip.Prefix) bool {
		first := p.Addr().As4()[0]
		return first == 0 || first == 10 || first == 127 || first >= 224
	})
	slices.SortFunc(all, state.Compare)
	return slices.Compact(all)
}
