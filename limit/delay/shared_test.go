// SPDX-License-Identifier: Apache-2.0

package delay

import (
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"weir/internal/direction"
	"weir/internal/kernel/device"
	"weir/internal/kernel/probe"
	"weir/internal/match"
	"weir/internal/testutil"
)

// scoped is a limit of what goes to the stage's network, with the device's tree another room's, or
// this one's own.
func scoped(shared bool) Work {
	l := (&stage{}).line(direction.Egress, 10*time.Second)
	l.Device, l.Index = "", 3
	w := Work{Lines: []Line{l}, Assignments: match.Assignments{match.OfPrefix(netip.MustParsePrefix("10.9.0.0/16")): 3}}
	if shared {
		w.Shared = map[string]bool{"eth0": true}
	}
	return w
}

// Where another room has a device's tree it stays as that has it, and packets are charged; the line
// moves there and back, whoever has the tree meanwhile, and leaves nothing.
func TestALineLodgesInAnothersTree(t *testing.T) {
	testutil.Need(t, "fq", probe.Qdisc("fq"))
	s := newStage(t)
	before := s.state()
	in := func(w Work, want bool) {
		t.Helper()
		s.do(func() error {
			is, err := s.host.InPlace(w)
			if is != want {
				t.Errorf("in place: %t, want %t", is, want)
			}
			return err
		})
	}
	apply := func(w Work) {
		t.Helper()
		s.do(func() error { return s.host.Ready(w) })
		s.do(func() error { return s.host.Apply(w.Assignments, w) })
		in(w, true)
	}
	root := func(want string) {
		t.Helper()
		s.do(func() error {
			tree, err := device.Snapshot(nil, "eth0")
			if got := tree.String(); got != want {
				t.Errorf("eth0 has %q, want %q", got, want)
			}
			return err
		})
	}
	tool := testutil.Command(t, "tc")
	their := func(words ...string) {
		t.Helper()
		s.do(func() error { return exec.Command(tool, append([]string{"qdisc"}, words...)...).Run() })
	}
	own, lodged := scoped(false), scoped(true)

	their("add", "dev", "eth0", "root", "handle", "77e1:", "pfifo", "limit", "99")
	apply(lodged)
	in(own, false)
	s.transfer(s.here, s.there, s.address(1), 10, 500)
	if c := s.counters(lodged.Lines[0]); c.Packets < 10 {
		t.Errorf("counted %+v", c)
	}
	s.do(func() error { return s.host.FollowDevices(lodged.Shared) })
	s.do(func() error {
		trees, err := s.host.Replaced()
		if len(trees) != 0 || len(s.host.Foresee(lodged)) != 0 {
			t.Errorf("%v are told to have been replaced, and %v to be", trees, s.host.Foresee(lodged))
		}
		return err
	})
	root("pfifo")

	their("del", "dev", "eth0", "root") // it is given back
	apply(own)
	root("fq")
	in(lodged, false)
	// Another room is to have it: the line is charged, and the tree is the former one.
	s.do(func() error {
		all, err := s.host.AtDevices(lodged)
		if err != nil {
			return err
		}
		return s.host.Yield(all)
	})
	root("")
	in(lodged, true)
	apply(own)
	apply(lodged)
	root("")
	s.apply()
	if after := s.state(); after != before {
		t.Errorf("left behind:\n%s\nwas:\n%s", after, before)
	}
}
