// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"encoding/binary"
	"math/bits"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/device"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/testutil"
)

// protocol is an experimental EtherType (IEEE 802), unused by other programs.
const protocol = 0x88b5

// trail records the numbers of programs in the order in which they run for a packet.
type trail struct{ m *ebpf.Map }

func newTrail(t *testing.T) trail {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	must(t, err)
	t.Cleanup(func() { _ = m.Close() })
	return trail{m}
}

// program appends a digit to the trail and continues with the next program.
func (tr trail) program(t *testing.T, digit int32) *ebpf.Program {
	t.Helper()
	const skbProtocol, next = 16, -1
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, skbProtocol, asm.Word),
		asm.JNE.Imm(asm.R2, int32(bits.ReverseBytes16(protocol)), "out"),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, tr.m.FD()), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4), asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord), asm.Mul.Imm(asm.R1, 10), asm.Add.Imm(asm.R1, digit),
		asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, next).WithSymbol("out"), asm.Return(),
	}})
	must(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// seen sends a frame from a device and returns the digits of the programs that ran.
func (tr trail) seen(t *testing.T, ns *netns.Namespace, from string) (digits uint64) {
	t.Helper()
	must(t, tr.m.Put(uint32(0), uint64(0)))
	run(t, ns, "ip", "link show dev "+from)
	must(t, ns.Do(func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		request, err := unix.NewIfreq(from)
		if err == nil {
			err = unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, request)
		}
		if err != nil {
			return err
		}
		frame := make([]byte, 64)
		copy(frame, "\xff\xff\xff\xff\xff\xff\x02\x00\x00\x00\x00\x01")
		binary.BigEndian.PutUint16(frame[12:], protocol)
		return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: int(request.Uint32()), Protocol: bits.ReverseBytes16(protocol)})
	}))
	// The other end of the pair may receive it on another CPU.
	testutil.Eventually(t, 5e9, "a program sees the frame", func() bool {
		return tr.m.Lookup(uint32(0), &digits) == nil && digits != 0
	})
	return digits
}

func eachMechanism(t *testing.T, f func(t *testing.T, mechanism device.Mechanism, ns *netns.Namespace)) {
	testutil.NeedRoot(t)
	for _, mechanism := range []device.Mechanism{device.TCX, device.Clsact} {
		t.Run(string(mechanism), func(t *testing.T) {
			if mechanism == device.TCX {
				testutil.Need(t, "tcx", probe.TCX())
			}
			ns := bench(t, "1")
			f(t, mechanism, ns)
		})
	}
}

// Programs run by their distance from the wire, independent of the order of attachment; foreign
// ones are at zero.
func TestProgramsKeepTheirOrder(t *testing.T) {
	eachMechanism(t, func(t *testing.T, mechanism device.Mechanism, ns *netns.Namespace) {
		tr, o := newTrail(t), device.Options{Mechanism: mechanism}
		foreign := tr.program(t, 9)
		path := testutil.BPFFS(t) + "/foreign"
		must(t, foreign.Pin(path))
		run(t, ns, "tc", "qdisc add dev a clsact")
		for _, hook := range []device.Hook{device.Ingress, device.Egress} {
			from, want := "b", []uint64{192345, 92346}
			if hook == device.Egress {
				from, want = "a", []uint64{543291, 64329}
			}
			if mechanism == device.Clsact {
				run(t, ns, "tc", "filter add dev a "+string(hook)+" prio 2000 bpf da object-pinned "+path)
			} else {
				attachForeign(t, ns, hook, foreign)
			}
			var all []*device.Attachment
			for _, of := range []struct {
				digit int32
				order device.Order
			}{{4, 20}, {1, -5}, {3, 3}, {5, 999}, {2, 1}} {
				a, err := device.Attach(ns, "a", hook, of.order, "room_"+string(rune('0'+of.digit)), tr.program(t, of.digit), o)
				must(t, err)
				all = append(all, a)
			}
			if got := tr.seen(t, ns, from); got != want[0] {
				t.Errorf("%s: seen by %d, want %d", hook, got, want[0])
			}
			if _, err := device.Attach(ns, "a", hook, 3, "other", tr.program(t, 8), o); fault.Of(err) != fault.Usage {
				t.Errorf("a second program with an order: %v", err)
			}
			must(t, all[3].Replace(tr.program(t, 6)))
			must(t, all[1].Close())
			if got := tr.seen(t, ns, from); got != want[1] {
				t.Errorf("%s: after replacing and detaching seen by %d, want %d", hook, got, want[1])
			}
			for _, i := range []int{0, 2, 3, 4} {
				must(t, all[i].Detach())
			}
			if got := tr.seen(t, ns, from); got != 9 {
				t.Errorf("%s: in the end seen by %d, want the foreign one", hook, got)
			}
		}
	})
}

func attachForeign(t *testing.T, ns *netns.Namespace, hook device.Hook, program *ebpf.Program) {
	t.Helper()
	must(t, ns.Do(func() error {
		a, err := net.InterfaceByName("a")
		if err != nil {
			return err
		}
		at := map[device.Hook]ebpf.AttachType{device.Ingress: ebpf.AttachTCXIngress, device.Egress: ebpf.AttachTCXEgress}[hook]
		attached, err := link.AttachTCX(link.TCXOptions{Interface: a.Index, Program: program, Attach: at})
		if err == nil {
			t.Cleanup(func() { _ = attached.Close() })
		}
		return err
	}))
}

func TestPinnedProgramsAreFoundAgain(t *testing.T) {
	eachMechanism(t, func(t *testing.T, mechanism device.Mechanism, ns *netns.Namespace) {
		tr, o := newTrail(t), device.Options{Mechanism: mechanism, Pins: testutil.BPFFS(t) + "/pins"}
		for digit, order := range []device.Order{0, 7} {
			a, err := device.Attach(ns, "a", device.Ingress, order, "module"+string(rune('a'+digit)), tr.program(t, int32(digit+1)), o)
			must(t, err)
			must(t, a.Close())
		}
		if got := tr.seen(t, ns, "b"); got != 12 {
			t.Errorf("seen by %d, want 12", got)
		}
		found, err := device.Attached(ns, "a", "modulea", o.Pins)
		if err != nil || len(found) != 1 || found[0].Order != 0 || found[0].Hook != device.Ingress || found[0].Mechanism != mechanism {
			t.Fatalf("found %+v, %v", found, err)
		}
		must(t, found[0].Replace(tr.program(t, 3)))
		must(t, found[0].Close())
		again, err := device.Attach(ns, "a", device.Ingress, 7, "moduleb", tr.program(t, 4), o) // replaces the other
		must(t, err)
		if got := tr.seen(t, ns, "b"); got != 34 {
			t.Errorf("seen by %d, want 34", got)
		}
		must(t, again.Detach())
		found, err = device.Attached(ns, "a", "modulea", o.Pins)
		must(t, err)
		must(t, found[0].Detach())
		if found, err = device.Attached(ns, "a", "modulea", o.Pins); err != nil || len(found) > 0 {
			t.Errorf("found %+v, %v", found, err)
		}
		if got := run(t, ns, "tc", "qdisc show dev a"); strings.Contains(got, "clsact") {
			t.Errorf("clsact is left: %s", got)
		}
	})
}

// The attachment ends some time after its pin is removed; meanwhile the same program is attached
// again.
func TestAPinThatWasRemovedIsMadeGood(t *testing.T) {
	eachMechanism(t, func(t *testing.T, mechanism device.Mechanism, ns *netns.Namespace) {
		tr, o := newTrail(t), device.Options{Mechanism: mechanism, Pins: testutil.BPFFS(t) + "/pins"}
		program := tr.program(t, 1)
		for range 20 {
			a, err := device.Attach(ns, "a", device.Ingress, 3, "module", program, o)
			must(t, err)
			must(t, a.Close())
			pins, err := filepath.Glob(o.Pins + "/*")
			must(t, err)
			for _, pin := range pins {
				must(t, os.Remove(pin))
			}
		}
		a, err := device.Attach(ns, "a", device.Ingress, 3, "module", program, o)
		must(t, err)
		if got := tr.seen(t, ns, "b"); got != 1 {
			t.Errorf("seen by %d, want 1", got)
		}
		must(t, a.Detach())
	})
}

func TestADeviceThatGoesTakesItsProgramsAlong(t *testing.T) {
	eachMechanism(t, func(t *testing.T, mechanism device.Mechanism, ns *netns.Namespace) {
		tr := newTrail(t)
		a, err := device.Attach(ns, "a", device.Egress, 1, "module", tr.program(t, 1), device.Options{Mechanism: mechanism})
		must(t, err)
		run(t, ns, "ip", "link del dev a")
		must(t, a.Detach())
		_, err = device.Attach(ns, "a", device.Egress, 1, "module", tr.program(t, 1), device.Options{Mechanism: mechanism})
		if fault.Of(err) != fault.Usage || !strings.Contains(err.Error(), "the device is gone") {
			t.Errorf("attached to what is gone: %v", err)
		}
	})
}

func TestAForeignFilterInTheWayIsSaid(t *testing.T) {
	testutil.NeedRoot(t)
	ns, tr := bench(t, "1"), newTrail(t)
	path := testutil.BPFFS(t) + "/foreign"
	must(t, tr.program(t, 9).Pin(path))
	run(t, ns, "tc", "qdisc add dev a clsact")
	run(t, ns, "tc", "filter add dev a egress prio 1 bpf da object-pinned "+path)
	_, err := device.Attach(ns, "a", device.Egress, 5, "module", tr.program(t, 1), device.Options{Mechanism: device.Clsact})
	if fault.Of(err) != fault.Testbed || !strings.Contains(err.Error(), "foreign filter has priority 1") {
		t.Errorf("%v", err)
	}
}
