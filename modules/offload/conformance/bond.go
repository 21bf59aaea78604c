// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"os/exec"
	"testing"

	"weir/kernel/ethtool"
	"weir/kernel/netns"
	"weir/kernel/testutil"
)

// bonding returns why the kernel has no bonds, or nil.
func bonding(t testing.TB) error {
	ns := testutil.Namespace(t, "probe")
	if out, err := exec.Command("ip", "-n", ns.Name, "link", "add", "bond", "type", "bond").CombinedOutput(); err != nil {
		return fmt.Errorf("make a bond: %w: %s", err, out)
	}
	return nil
}

// bond connects a port that is a bond of two devices. The second one has no carrier:
//
//	p0 == p0a ==== l
//	   == p0b ==== p0c, which is down
func (b *Bench) bond(t testing.TB, port, far string, at *netns.Namespace) {
	b.ip(t, "link add %s type bond mode active-backup miimon 10", port)
	b.cable(t, port+"a", far, at)
	b.cable(t, port+"b", port+"c", b.Router)
	// A bond takes redirected frames if each of its devices does: see newBench.
	if err := ethtool.SetFeatures(b.Router, port+"c", map[string]bool{"gro": true}); err != nil {
		t.Fatal(err)
	}
	for _, slave := range []string{"a", "b"} {
		b.ip(t, "link set dev %s master %s", port+slave, port)
	}
}
