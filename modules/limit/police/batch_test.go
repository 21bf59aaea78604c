// SPDX-License-Identifier: Apache-2.0

package police

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"weir/core/match"
	"weir/kernel/testutil"
)

// assigned returns the scope of a key in a map, or -1.
func assigned(t *testing.T, entries *ebpf.Map, key any) int {
	t.Helper()
	var scope uint32
	err := entries.Lookup(key, &scope)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return -1
	}
	if err != nil {
		t.Fatal(err)
	}
	return int(scope)
}

// trie returns the key of a prefix in the layout of match_prefix.
func trie(prefix netip.Prefix) []byte {
	address, length := prefix.Addr().As16(), prefix.Bits()
	if prefix.Addr().Is4() {
		length += 96
	}
	return append(binary.NativeEndian.AppendUint32(nil, uint32(length)), address[:]...)
}

func TestReassignReplacesAllAtOnce(t *testing.T) {
	testutil.NeedRoot(t)
	plane, err := Load(8)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plane.Close() }()
	if plane.Active() {
		t.Error("a data plane without scopes says that it is active")
	}
	prefix, other := netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")
	first := match.Assignments{match.OfCgroup(70): 0, match.OfCgroup(71): 1, match.OfUser(7): 2, match.OfInterface(3): 3,
		match.OfPrefix(prefix): 4, match.OfPrefix(other): 5}
	if err := plane.Reassign(nil, first); err != nil {
		t.Fatal(err)
	}
	second := match.Assignments{match.OfCgroup(71): 6, match.OfCgroup(72): 7, match.OfPrefix(prefix): 4}
	gone := match.Assignments{match.OfCgroup(70): 0, match.OfCgroup(71): 1, match.OfCgroup(99): 0, match.OfInterface(3): 3, match.OfPrefix(other): 5}
	if err := plane.Reassign(gone, second); err != nil {
		t.Fatal(err)
	}
	o := &plane.objects
	for _, test := range []struct {
		name    string
		entries *ebpf.Map
		key     any
		want    int
	}{
		{"a cgroup that is gone", o.ScopeCgroups, uint64(70), -1},
		{"a cgroup with another scope", o.ScopeCgroups, uint64(71), 6},
		{"a new cgroup", o.ScopeCgroups, uint64(72), 7},
		{"a user that nobody spoke of", o.ScopeUsers, limitMatchUsers{Length: 32, User: bits.ReverseBytes32(7)}, 2},
		{"an interface that is gone", o.ScopeInterfaces, uint32(3), -1},
		{"a prefix that stays", o.ScopePrefixes, trie(prefix), 4},
		{"a prefix that is gone", o.ScopePrefixes, trie(other), -1},
	} {
		if got := assigned(t, test.entries, test.key); got != test.want {
			t.Errorf("%s: scope %d, want %d", test.name, got, test.want)
		}
	}
	// One generation for each Reassign, and the kinds that have scopes are looked up.
	var settings limitLimitSettings
	if err := o.LimitCurrent.Lookup(uint32(0), &settings); err != nil {
		t.Fatal(err)
	}
	if settings.Generation != 2 || settings.Kinds != 1|2|4|8 || !plane.Active() {
		t.Errorf("settings %+v, want generation 2 and the four kinds", settings)
	}
	if err := plane.Reassign(nil, match.Assignments{match.OfUser(8): 8}); err == nil {
		t.Error("a scope that was not loaded was assigned")
	}
}
