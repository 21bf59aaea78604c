// SPDX-License-Identifier: Apache-2.0

package links

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"weir/core/module"
	"weir/kernel/device"
	"weir/kernel/probe"
	"weir/kernel/testutil"
)

// shared is a state with queues for shaped packets at the link.
func (s *stage) shared(t *testing.T, text string) module.State {
	t.Helper()
	want := s.state(t, text)
	want.Shared = map[string]bool{"eth0": true}
	return want
}

// heldPriority is the skb priority of datagrams that the stage treats as shaped.
const heldPriority = 5

// hold marks such datagrams at eth0 like the shaper, without a departure time.
func (s *stage) hold(t *testing.T) {
	t.Helper()
	const priority, index, departs, next = 32, 44, 0x77e1, -1 // offsets in struct __sk_buff; bpf/departs.h
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, priority, asm.Word), asm.JNE.Imm(asm.R2, heldPriority, "out"),
		asm.Mov.Imm(asm.R2, departs), asm.StoreMem(asm.R1, index, asm.R2, asm.Word),
		asm.Mov.Imm(asm.R0, next).WithSymbol("out"), asm.Return()}})
	must(t, err)
	defer func() { _ = program.Close() }()
	var a *device.Attachment
	must(t, s.here.Do(func() error {
		a, err = device.Attach(nil, "eth0", device.Egress, 1, "held", program, device.Options{})
		return err
	}))
	t.Cleanup(func() { must(t, s.here.Do(a.Detach)) })
}

// Shaped packets wait in their class beside the class's own queue: they yield to other classes like
// their class, alternate with unshaped packets, and stay in order.
func TestWhatIsHeldWaitsInItsClass(t *testing.T) {
	testutil.Need(t, "fq", probe.Qdisc("fq"))
	const be, many = 60, 400
	s := newStage(t, "")
	want := s.shared(t, slow(Own))
	must(t, s.plane.CanHost())
	_, err := s.try(module.State{}, want)
	must(t, err)
	if !s.inPlace(t, want) {
		t.Fatal("applied, and not in place")
	}
	s.hold(t)
	fd := s.listen(t)
	s.send(t, train{1, many, 0})
	held := train{dscp: 2, packets: be, priority: heldPriority} // DSCP 2 belongs to no class, so to best effort
	s.send(t, train{dscp: 1, packets: many, priority: heldPriority}, held, train{0, be, 0})
	all := s.received(t, fd, want)
	for _, dscp := range []byte{0, 2} {
		if n := between(t, all, dscp, 1, be); n > 8 {
			t.Errorf("%d datagrams of less than best effort came among %d of best effort with DSCP %d", n, be, dscp)
		}
	}
	if n := between(t, all, 0, 2, be); n < be/2 {
		t.Errorf("%d of %d held datagrams came among %d that are not: they take turns", n, be, be)
	}
	if sent, lost := s.row(t, want, bestEffort); sent < 2*be || lost != 0 {
		t.Errorf("of best effort %d were sent and %d lost, want %d and none", sent, lost, 2*be)
	}
}

// The tree has queues for shaped packets as long as a shaper uses the link; afterwards the former
// tree is restored.
func TestALinkIsSharedAndNoMore(t *testing.T) {
	testutil.Need(t, "fq", probe.Qdisc("fq"))
	const text = "  eth0: {rate: 10Mbit}\n"
	s := newStage(t, "")
	before := s.show(t)
	own := s.apply(t, text)
	alone := withoutProgram(s.show(t))
	shared := s.shared(t, text)
	if s.inPlace(t, shared) {
		t.Error("there is no queue for what is held, and it is in place")
	}
	for range 2 {
		_, err := s.try(own, shared)
		must(t, err)
		if now := s.show(t); !s.inPlace(t, shared) || s.inPlace(t, own) || strings.Count(now, `"kind":"fq"`) != 4 {
			t.Errorf("shared, there is %s", now)
		}
		_, err = s.try(shared, own)
		must(t, err)
		if now := withoutProgram(s.show(t)); now != alone || !s.inPlace(t, own) {
			t.Errorf("shared no more, there is\n%s, want\n%s", now, alone)
		}
	}
	_, err := s.try(own, shared)
	must(t, err)
	if _, err := s.release(); err != nil {
		t.Fatal(err)
	}
	if after := s.show(t); after != before {
		t.Errorf("after the release there is\n%s, before there was\n%s", after, before)
	}
}

// prioritize sets the priority of a socket's packets.
func prioritize(t testing.TB, fd, priority int) {
	t.Helper()
	must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PRIORITY, priority))
}
