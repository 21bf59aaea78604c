// SPDX-License-Identifier: Apache-2.0

package sysctl_test

import (
	"errors"
	"testing"

	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
)

func TestSetStaysInsideTheNamespace(t *testing.T) {
	ns, other := testutil.Namespace(t, "one"), testutil.Namespace(t, "two")
	const key = "net.ipv4.ip_forward"
	for _, n := range []*netns.Namespace{ns, other} {
		if err := sysctl.Set(n, key, "0"); err != nil {
			t.Fatal(err)
		}
	}
	if err := sysctl.Set(ns, key, "1"); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		ns   *netns.Namespace
		want string
	}{{ns, "1"}, {other, "0"}} {
		if got, err := sysctl.Get(test.ns, key); err != nil || got != test.want {
			t.Errorf("%s: %q, %v; want %q", test.ns.Name, got, err, test.want)
		}
	}
}

func TestSlashesForDevicesWithDots(t *testing.T) {
	ns := testutil.Namespace(t, "dots")
	conn, err := rtnl.Open(ns)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.AddVeth("a.1", ns, "b.1", 0); err != nil {
		t.Fatal(err)
	}
	if err := sysctl.Set(ns, "net/ipv4/conf/a.1/rp_filter", "2"); err != nil {
		t.Error(err)
	}
}

func TestKeysOfTheMachineAreRefused(t *testing.T) {
	ns := testutil.Namespace(t, "keys")
	first, err := netns.Current()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	for _, key := range []string{"net.core.netdev_budget", "net.ipv4.tcp_mem", "net.core.rmem_max"} {
		for _, where := range []*netns.Namespace{ns, first} {
			// The value is the present one, so accepting it would change nothing.
			value, err := sysctl.Get(first, key)
			if err != nil {
				t.Fatal(err)
			}
			if err := sysctl.Set(where, key, value); err == nil {
				t.Errorf("%s accepted in namespace %q", key, where.Name)
			} else {
				t.Logf("%v", err)
			}
		}
	}
}

func TestOnlyNetworkSettings(t *testing.T) {
	for _, key := range []string{"kernel.panic", "", "net/../kernel/panic", "net", "/net/core/somaxconn", "net//x"} {
		err := sysctl.Set(nil, key, "1")
		if fault.Of(err) != fault.Usage {
			t.Errorf("key %q: %v; want wrong usage", key, err)
		}
		var f *fault.Error
		if !errors.As(err, &f) {
			t.Errorf("key %q: no advice in %v", key, err)
		}
	}
}
