// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/internal/fault"
	"weir/ix/ixtest"
)

func TestExplain(t *testing.T) {
	e := exchange(t, sample)
	p := netip.MustParsePrefix("192.0.2.0/24")
	table := table(t, e, []ixtest.Path{
		{Prefix: p, Peer: 0, NextHop: hops[0], ASPath: []uint32{8492, 3356, 1}, Shutdown: true}, {Prefix: p, Peer: 1, NextHop: hops[1], ASPath: []uint32{293, 3356, 1}, Pref: 200},
		{Prefix: p, Peer: 2, NextHop: hops[2], ASPath: []uint32{293, 3356, 1, 1, 1, 1}, Pref: 200}, {Prefix: p, Peer: 3, NextHop: hops[3], ASPath: []uint32{174, 3356}},
	})
	for _, test := range []struct {
		member string
		want   []string
	}{
		{"", []string{
			"yes green/fra1 hash", "yes green/fra2 3 hops longer than the shortest, tolerance 1, sponsor repeats position 1, second AS repeats position 1, hash",
			"yes violet/ber1 LOCAL_PREF 100 is below 200, second AS repeats position 1, hash", "yes orange/ber1 GRACEFUL_SHUTDOWN, LOCAL_PREF 100 is below 200, second AS repeats position 1, hash"}},
		{"club", []string{
			"yes green/fra1 hash", "yes green/fra2 3 hops longer than the shortest, tolerance 1, sponsor repeats position 1, second AS repeats position 1, hash",
			"no orange/ber1 the member's `without` has the sponsor", "no violet/ber1 the sponsor's `only` lacks the member"}},
	} {
		x, err := table.Explain(e, "192.0.2.77", test.member)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range x.List {
			sent := map[bool]string{true: "yes", false: "no"}[v.Sent]
			got = append(got, strings.Join([]string{sent, v.Sponsor + "/" + v.Port, v.Reason}, " "))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%q: %s", test.member, diff)
		}
		if x.Prefix != p || x.List[0].ASPath != "293 3356 1" || x.List[0].NextHop != hops[1] {
			t.Errorf("%+v", x)
		}
	}
	for asked, want := range map[string]string{"198.51.100.1": "no path of a known port covers", "nonsense": "neither a prefix nor an address", "::/0": "no path"} {
		if _, err := table.Explain(e, asked, ""); fault.Of(err) != fault.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", asked, err)
		}
	}
	if _, err := table.Explain(e, "192.0.2.0/24", "clubb"); fault.Of(err) != fault.Usage || !strings.Contains(err.Error(), `did you mean "club"?`) {
		t.Error(err)
	}
}
