package limit

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"weir/internal/testutil"
)

// assigned returns the scope that a map has for a key, or -1.
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
	first := Assignments{Cgroups: map[uint64]int{70: 0, 71: 1}, Users: map[uint32]int{7: 2}, Interfaces: map[int]int{3: 3},
		Prefixes: map[netip.Prefix]int{prefix: 4, other: 5}}
	if err := plane.Reassign(Assignments{}, first); err != nil {
		t.Fatal(err)
	}
	second := Assignments{Cgroups: map[uint64]int{71: 6, 72: 7}, Prefixes: map[netip.Prefix]int{prefix: 4}}
	gone := Assignments{Cgroups: map[uint64]int{70: 0, 71: 1, 99: 0}, Interfaces: map[int]int{3: 3}, Prefixes: map[netip.Prefix]int{other: 5}}
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
		{"a cgroup that is gone", o.LimitCgroups, uint64(70), -1},
		{"a cgroup with another scope", o.LimitCgroups, uint64(71), 6},
		{"a new cgroup", o.LimitCgroups, uint64(72), 7},
		{"a user that nobody spoke of", o.LimitUsers, uint32(7), 2},
		{"an interface that is gone", o.LimitInterfaces, uint32(3), -1},
		{"a prefix that stays", o.LimitPrefixes, prefixKey(prefix), 4},
		{"a prefix that is gone", o.LimitPrefixes, prefixKey(other), -1},
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
	if settings.Generation != 2 || settings.Cgroups != 1 || settings.Users != 1 || settings.Interfaces != 1 || settings.Prefixes != 1 || !plane.Active() {
		t.Errorf("settings %+v, want generation 2 and every kind", settings)
	}
	if err := plane.Reassign(Assignments{}, Assignments{Users: map[uint32]int{8: 8}}); err == nil {
		t.Error("a scope that was not loaded was assigned")
	}
}
