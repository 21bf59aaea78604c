// SPDX-License-Identifier: Apache-2.0

package match

import (
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/kernel/cgroup"
	"weir/kernel/testutil"
)

// The owner of a user namespace controls marks, addresses and devices in its network namespaces,
// and may send himself any amount. It is charged to the scopes of his processes, never to others.
func TestNamespacesOfStrangersChargeNobodyElse(t *testing.T) {
	testutil.NeedRoot(t)
	if err := Reads(ebpf.CGroupSKB); err != nil {
		testutil.Need(t, "tracing", err)
	}
	path, err := cgroup.Root()
	if err != nil {
		t.Fatal(err)
	}
	p := newPlace(t, 1)
	p.ns = foreign(t, 5511)
	up(t, p.ns)
	root := cgroup.Cgroup{Path: path}
	for name, test := range map[string]struct {
		key  Key
		want [3]uint64 // datagrams sent, datagrams received, ends of the connection
	}{
		"mark":      {OfMark(clientMark), [3]uint64{}},
		"prefix":    {OfPrefix(netip.MustParsePrefix("127.0.0.0/8")), [3]uint64{}},
		"interface": {OfInterface(1), [3]uint64{}},
		"host":      {OfCgroup(id(t, root)), [3]uint64{}},
		"cgroup":    {OfCgroup(id(t, p.levels[0])), [3]uint64{1, 1, 2}},
		"user":      {OfUser(clientUser), [3]uint64{1, 0, 1}},
		"namespace": {OfNetns(cookie(t, p.ns)), [3]uint64{1, 1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := test.key.Kind.Needs(ebpf.CGroupSKB); err != nil {
				testutil.Need(t, "bpf_get_netns_cookie in cgroup_skb", err)
			}
			o := p.look(t, p.ns, test.key)
			p.send(t, unix.AF_INET, unix.SOCK_DGRAM)
			p.send(t, unix.AF_INET, unix.SOCK_STREAM)
			if got := [3]uint64{counted(t, o.MatchOut), counted(t, o.MatchIn), counted(t, o.MatchSockets)}; got != test.want {
				t.Errorf("found %d times, want %d", got, test.want)
			}
		})
	}
}
