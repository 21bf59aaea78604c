// SPDX-License-Identifier: Apache-2.0

package netstate_test

import (
	"fmt"
	"strings"
	"testing"

	"weir/kernel/netstate"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
)

// TestLongSettingsAreReadWhole changes the end of an unusually long value.
func TestLongSettingsAreReadWhole(t *testing.T) {
	testutil.NeedRoot(t)
	ns := testutil.Namespace(t, "here")
	const key = "net.ipv4.ip_local_reserved_ports"
	var ports []string
	for port := 20_001; port < 22_000; port += 2 {
		ports = append(ports, fmt.Sprint(port))
	}
	for _, length := range []int{len(ports), len(ports) - 1} {
		want := strings.Join(ports[:length], ",")
		if err := sysctl.Set(ns, key, want); err != nil {
			t.Fatal(err)
		}
		state, err := netstate.Take(ns)
		if err != nil {
			t.Fatal(err)
		}
		if got := state["setting net/ipv4/ip_local_reserved_ports"]; got != want {
			t.Errorf("%d ports: %d octets were read, %d written", length, len(got), len(want))
		}
	}
}
