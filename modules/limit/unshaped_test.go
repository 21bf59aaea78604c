// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"weir/core/match"
	"weir/kernel/probe"
	"weir/kernel/testutil"
	"weir/modules/limit/police"
	"weir/modules/limit/shape"
)

// Shaping that fails where it should work leaves the limits policed.
func TestFailedShapingLeavesThePolicer(t *testing.T) {
	d := newShapedHost(t)
	testutil.Need(t, "fq", probe.Qdisc("fq"))
	tc := func(args string) {
		d.do(func() error { return exec.Command(testutil.Command(t, "tc"), strings.Fields(args)...).Run() })
	}
	const scopes = "  a: {interface: eth0, egress: 8Mbit}\n  b: {user: 7, egress: 8Mbit}\n"
	tc("qdisc add dev eth0 root handle 1: stab linklayer atm mpu 84 tsize 128 pfifo limit 7")
	d.apply(scopes)
	tc("qdisc del dev eth0 root")
	t.Cleanup(func() { applyShapers = shape.Host.Apply })
	applyShapers = func(h shape.Host, had match.Assignments, w shape.Work) error {
		if len(w.Shapers) > 0 {
			return errors.New("no memory")
		}
		return h.Apply(had, w)
	}
	for range 2 {
		d.apply(scopes)
		modes, reasons := d.modes()
		if modes["a egress"] != police.ModePolice || modes["b egress"] != police.ModePolice || !strings.Contains(reasons["b egress"], "shaping failed: no memory") {
			t.Errorf("modes %v for %v", modes, reasons)
		}
	}
	d.do(func() error {
		in, err := d.plane.InPlace(d.have)
		if !in {
			t.Error("the policer is not in place")
		}
		return err
	})
	t.Cleanup(func() { failures.at = nil })
}
