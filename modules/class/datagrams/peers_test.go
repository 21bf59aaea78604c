// SPDX-License-Identifier: Apache-2.0

package datagrams

import (
	"encoding/binary"
	"net/netip"
	"os/exec"
	"testing"

	"weir/internal/dscp"
	"weir/kernel/testutil"
)

// TestAPeerWithAPathIsChosen gives most octets to multicast, broadcast and link-local addresses.
func TestAPeerWithAPathIsChosen(t *testing.T) {
	testutil.NeedRoot(t)
	h, err := load(dscp.LowEffort)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.detach() }()
	for address, octets := range map[string]uint64{"224.0.0.251": 9000, "255.255.255.255": 8000, "fe80::1": 7000, "ff02::fb": 6000, "10.9.0.2": 500, "fd00:9::2": 400} {
		var key datagramsDatagramsPeer
		a := netip.MustParseAddr(address)
		bytes := a.As16()
		if a.Is4() {
			bytes = [16]byte{}
			copy(bytes[12:], a.AsSlice())
		}
		for i := range key.Address {
			key.Address[i] = binary.NativeEndian.Uint32(bytes[4*i:])
		}
		if err := h.objects.DatagramsPeers.Put(key, octets); err != nil {
			t.Fatal(err)
		}
	}
	if peer := h.busiest(); peer != netip.MustParseAddr("10.9.0.2") {
		t.Errorf("chose %v, want 10.9.0.2", peer)
	}
}

// TestCommandsInOtherNamespacesAreNotMeasured puts a process of another namespace into the cgroup.
func TestCommandsInOtherNamespacesAreNotMeasured(t *testing.T) {
	testutil.NeedRoot(t)
	group, there := testutil.Cgroup(t), testutil.Namespace(t, "there")
	if isElsewhere(group.Path) {
		t.Error("an empty cgroup is in another namespace")
	}
	enter := func(command *exec.Cmd) {
		if err := group.Add(command.Process.Pid); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = command.Process.Kill()
			_ = command.Wait()
		})
	}
	near, far := exec.Command("sleep", "1000"), exec.Command("sleep", "1000")
	if err := near.Start(); err != nil {
		t.Fatal(err)
	}
	enter(near)
	if isElsewhere(group.Path) {
		t.Error("a process of this namespace is in another one")
	}
	if err := there.Do(far.Start); err != nil {
		t.Fatal(err)
	}
	enter(far)
	if !isElsewhere(group.Path) {
		t.Error("a process of another namespace was missed")
	}
}
