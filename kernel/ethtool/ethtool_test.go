// SPDX-License-Identifier: Apache-2.0

package ethtool_test

import (
	"testing"

	"weir/kernel/ethtool"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
)

func veth(t *testing.T) *netns.Namespace {
	t.Helper()
	ns := testutil.Namespace(t, "ethtool")
	conn, err := rtnl.Open(ns)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.AddVeth("a", ns, "b", 0); err != nil {
		t.Fatal(err)
	}
	return ns
}

func TestOffloadsGoOffAndOn(t *testing.T) {
	ns := veth(t)
	want := map[string]bool{"tso": false, "gso": false, "gro": false, "tx": false, "rx": false}
	for range 2 {
		if err := ethtool.SetFeatures(ns, "a", want); err != nil {
			t.Fatal(err)
		}
		have, err := ethtool.Features(ns, "a")
		if err != nil {
			t.Fatal(err)
		}
		for name, on := range want {
			if have[name] != on {
				t.Errorf("%s is %t, want %t", name, have[name], on)
			}
			want[name] = !on
		}
	}
}

func TestFeaturesUseTheKernelsNamesToo(t *testing.T) {
	ns := veth(t)
	if err := ethtool.SetFeatures(ns, "a", map[string]bool{"tx-udp-segmentation": false}); err != nil {
		t.Fatal(err)
	}
	have, err := ethtool.Features(ns, "a")
	if err != nil {
		t.Fatal(err)
	}
	if on, known := have["tx-udp-segmentation"]; on || !known {
		t.Errorf("tx-udp-segmentation: on %t, known %t", on, known)
	}
}

func TestWhatCannotBeChangedIsAnError(t *testing.T) {
	ns := veth(t)
	for _, test := range []struct {
		description string
		device      string
		want        map[string]bool
	}{
		{"unknown feature", "a", map[string]bool{"warp": true}},
		{"unknown device", "nowhere", map[string]bool{"tx": false}},
		{"fixed feature", "a", map[string]bool{"rx-fcs": true}},
		{"feature that needs another", "a", map[string]bool{"tx": false, "tso": true}},
	} {
		if err := ethtool.SetFeatures(ns, test.device, test.want); err == nil {
			t.Errorf("%s: accepted", test.description)
		} else {
			t.Logf("%s: %v", test.description, err)
		}
	}
	if err := ethtool.SetFeatures(ns, "a", map[string]bool{"rx-fcs": false}); err != nil {
		t.Errorf("a fixed feature already in the wanted state: %v", err)
	}
}

func TestStatsOfVeth(t *testing.T) {
	stats, err := ethtool.Stats(veth(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	if peer := stats["peer_ifindex"]; peer < 2 {
		t.Errorf("peer_ifindex %d in %v", peer, stats)
	}
}
