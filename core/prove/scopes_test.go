// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"weir/core/match"
	"weir/core/selector"
	"weir/kernel/testutil"
)

func TestHolds(t *testing.T) {
	peer := netip.MustParseAddr("192.0.2.9")
	user := uint32(7)
	here := selector.Inside{User: &user, Namespace: ownNamespace}
	for name, test := range map[string]struct {
		outer, inner selector.Inside
		peer         netip.Addr
		want         bool
	}{
		"the host":               {selector.Inside{Everything: true, Cgroup: "/"}, here, netip.Addr{}, true},
		"a cgroup above":         {selector.Inside{Cgroup: "/a"}, selector.Inside{Cgroup: "/a/b"}, peer, true},
		"a cgroup beside":        {selector.Inside{Cgroup: "/a"}, selector.Inside{Cgroup: "/ab"}, peer, false},
		"a cgroup and a user":    {selector.Inside{Cgroup: "/a"}, here, peer, false},
		"the peer's prefix":      {selector.Inside{Remote: netip.MustParsePrefix("192.0.2.0/24")}, here, peer, true},
		"another prefix":         {selector.Inside{Remote: netip.MustParsePrefix("198.51.100.0/24")}, here, peer, false},
		"a prefix and no peer":   {selector.Inside{Remote: netip.MustParsePrefix("192.0.2.0/24")}, here, netip.Addr{}, false},
		"this namespace":         {selector.Inside{Namespace: ownNamespace}, here, peer, true},
		"a namespace of nowhere": {selector.Inside{Namespace: "/nowhere"}, here, peer, false},
		"a mark":                 {selector.Inside{Mark: 1}, here, peer, false},
	} {
		if got := holds(test.outer, test.inner, test.peer); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

// A scope inside another is not responsible for the outer limit.
func TestScopesAroundAreNamed(t *testing.T) {
	e := setup(t)
	apply(t, e, "outer: {cgroup: /a, egress: {rate: 50Mbit, mode: police}}", "inner: {cgroup: /a/inner, egress: {rate: 80Mbit, mode: police}}", "other: {cgroup: /b, egress: {rate: 5Mbit, mode: police}}",
		"host: {host: true, ingress: {rate: 5Mbit, mode: police}}", "passing: {user: 5, toy: 1}", "family: {egress: {rate: 10Mbit, mode: police}}", "child: {user: 77, parent: family}")
	for name, want := range map[string]string{"inner": "[outer host]", "outer": "[host]", "host": "[]", "child": "[host family]"} {
		tests, err := Options{Engine: e, Scope: name, Duration: time.Second, Repetitions: 1}.Plan(nil)
		if err != nil || len(tests) == 0 {
			t.Fatal(tests, err)
		}
		for _, test := range tests {
			var got []string
			for _, s := range test.around {
				got = append(got, s.Name)
			}
			if fmt.Sprint(got) != want {
				t.Errorf("%s by %s: around it are %v, want %s", name, test.Path, got, want)
			}
		}
	}
}

func TestMarksAndNamespacesAreReached(t *testing.T) {
	e := setup(t)
	testutil.Snapshot(t)
	elsewhere := testutil.Namespace(t, "elsewhere")
	scopes := []string{"marked: {mark: 0x10, egress: {rate: 20Mbit, mode: police}}", "elsewhere: {netns: " + elsewhere.Name + ", egress: {rate: 20Mbit, mode: police}}"}
	why := match.Netns.Needs(ebpf.CGroupSKB)
	if why != nil {
		scopes = scopes[:1] // the check of the toy module reaches namespaces on every kernel
	}
	result := run(t, e, Options{}, scopes...)
	if paths := chargedOnce(t, result); paths == 0 {
		t.Error("no path was measured")
	}
	for _, want := range []struct {
		scope, bypass string
		states        []State
	}{
		{"marked", "another network namespace", []State{Covered}},
		{"marked", "super-packets", []State{Covered, Unknown}}, // a flow may have no super-packets
		{"elsewhere", "another network namespace", []State{NotApplicable}},
		{"elsewhere", "sockets opened before", []State{NotApplicable}},
		{"elsewhere", "tunnel", []State{NotApplicable}},
		{"elsewhere", "super-packets", []State{Covered, Unknown}},
		{"elsewhere", "IPv6", []State{Covered, NotApplicable}},
	} {
		if why != nil && want.scope == "elsewhere" {
			continue
		}
		if got := find(t, result, want.scope, want.bypass); !slices.Contains(want.states, got.State) {
			t.Errorf("%s, %s: %s because %s; want %s", want.scope, want.bypass, got.State, got.Why, want.states)
		}
	}
	t.Logf("a mark that comes late: %+v", find(t, result, "marked", "sockets opened before"))
}
