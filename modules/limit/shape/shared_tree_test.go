// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"weir/core/match"
	"weir/internal/direction"
	"weir/kernel/device"
	"weir/kernel/probe"
	"weir/kernel/testutil"
)

// scoped returns a scope for the stage's network; shared means another qdisc owner at the device.
func scoped(shared bool) Work {
	l := (&stage{}).shaper(direction.Egress, 10*time.Second)
	l.Device, l.Index = "", 3
	w := Work{Shapers: []Shaper{l}, Assignments: match.Assignments{match.OfPrefix(netip.MustParsePrefix("10.9.0.0/16")): 3}}
	if shared {
		w.Shared = map[string]bool{"eth0": true}
	}
	return w
}

// With another qdisc owner the device keeps that owner's tree and packets are charged. The shaper
// changes to nested and back, and leaves no state.
func TestNestedShaperKeepsTheOwnersTree(t *testing.T) {
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
	own, nested := scoped(false), scoped(true)

	their("add", "dev", "eth0", "root", "handle", "77e1:", "pfifo", "limit", "99")
	apply(nested)
	in(own, false)
	s.transfer(s.here, s.there, s.address(1), 10, 500)
	if c := s.counters(nested.Shapers[0]); c.Packets < 10 {
		t.Errorf("counted %+v", c)
	}
	s.do(func() error { return s.host.FollowDevices(nested.Shared) })
	s.do(func() error {
		trees, err := s.host.Replaced()
		if len(trees) != 0 || len(s.host.PlanNotes(nested)) != 0 {
			t.Errorf("reported as replaced: %v, as planned: %v", trees, s.host.PlanNotes(nested))
		}
		return err
	})
	root("pfifo")

	their("del", "dev", "eth0", "root") // it is given back
	apply(own)
	root("fq")
	in(nested, false)
	// Another module becomes the qdisc owner: packets are charged, and the former tree is back.
	s.do(func() error {
		all, err := s.host.AtDevices(nested)
		if err != nil {
			return err
		}
		return s.host.Yield(all)
	})
	root("")
	in(nested, true)
	apply(own)
	apply(nested)
	root("")
	s.apply()
	if after := s.state(); after != before {
		t.Errorf("left behind:\n%s\nwas:\n%s", after, before)
	}
}

// A packet is marked DEPARTS exactly if it is charged at this device, delayed or not, and
// independently of marks from other devices.
func TestChargedPacketsAreMarked(t *testing.T) {
	testutil.Need(t, "fq", probe.Qdisc("fq"))
	s := newStage(t)
	s.do(func() error { return s.host.Apply(nil, scoped(true)) })
	marked, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = marked.Close() }()
	// One program runs before the shaper, the other after it. Offsets are from struct __sk_buff,
	// departs is from bpf/departs.h.
	const protocol, index, departs, next = 16, 44, 0x77e1, -1
	wrong := asm.Instructions{asm.Mov.Imm(asm.R2, departs), asm.StoreMem(asm.R1, index, asm.R2, asm.Word), asm.Mov.Imm(asm.R0, next), asm.Return()}
	count := asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, protocol, asm.Word), asm.JNE.Imm(asm.R2, 0x08, "out"), // IPv4, in network order
		asm.LoadMem(asm.R2, asm.R1, index, asm.Word), asm.Mov.Imm(asm.R3, 0), asm.JNE.Imm(asm.R2, departs, "key"), asm.Mov.Imm(asm.R3, 1),
		asm.StoreMem(asm.RFP, -4, asm.R3, asm.Word).WithSymbol("key"), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, marked.FD()), asm.FnMapLookupElem.Call(), asm.JEq.Imm(asm.R0, 0, "out"),
		asm.Mov.Imm(asm.R1, 1), asm.StoreXAdd(asm.R0, asm.R1, asm.DWord), asm.Mov.Imm(asm.R0, next).WithSymbol("out"), asm.Return()}
	for _, at := range []struct {
		name  string
		order device.Order
		does  asm.Instructions
	}{{"before", chargeOrder + 1, wrong}, {"behind", chargeOrder - 1, count}} {
		program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: at.does})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = program.Close() }()
		s.do(func() error {
			a, err := device.Attach(nil, "eth0", device.Egress, at.order, at.name, program, device.Options{Known: s.host.Devices})
			if err == nil {
				t.Cleanup(func() { s.do(a.Detach) })
			}
			return err
		})
	}
	var n uint64
	counted := func(key uint32) uint64 {
		if err := marked.Lookup(key, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	s.transfer(s.here, s.there, s.address(1), 1, 500)
	if counted(0) != 0 || counted(1) != 1 {
		t.Errorf("charged: %d packets were marked, %d were not", counted(1), counted(0))
	}
	elsewhere := scoped(true)
	elsewhere.Assignments = match.Assignments{match.OfPrefix(netip.MustParsePrefix("10.10.0.0/16")): 3}
	s.do(func() error { return s.host.Apply(scoped(true).Assignments, elsewhere) })
	s.transfer(s.here, s.there, s.address(1), 1, 500)
	if counted(0) != 1 || counted(1) != 1 {
		t.Errorf("not charged: %d packets were unmarked, %d were not", counted(0), counted(1)-1)
	}
}
