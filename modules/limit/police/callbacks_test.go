// SPDX-License-Identifier: Apache-2.0

package police

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"weir/kernel/rtnl"
	"weir/kernel/testutil"
)

// Numbers of enum and flags in linux/bpf.h: callbacks, their flags, offsets in bpf_sock_ops.
const (
	activeEstablished, rttSample, headerLength = 4, 12, 14
	everySample, everyHeader                   = 1 << 3, 1 << 6
	ofFlags                                    = 84
)

// watcher is a foreign sockops program that requests and counts the same callbacks.
type watcher struct{ counts *ebpf.Map }

func watch(t *testing.T, group string) watcher {
	t.Helper()
	counts, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 32})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = counts.Close() })
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SockOps, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R7, asm.R6, 0, asm.Word),
		asm.JNE.Imm(asm.R7, activeEstablished, "count"),
		asm.LoadMem(asm.R2, asm.R6, ofFlags, asm.Word),
		asm.Or.Imm(asm.R2, everySample|everyHeader),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.FnSockOpsCbFlagsSet.Call(),
		asm.StoreMem(asm.RFP, -4, asm.R7, asm.Word).WithSymbol("count"),
		asm.LoadMapPtr(asm.R1, counts.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "end"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, 1).WithSymbol("end"),
		asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	attached, err := link.AttachCgroup(link.CgroupOptions{Path: group, Attach: ebpf.AttachCGroupSockOps, Program: program})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = attached.Close() })
	return watcher{counts}
}

// seen returns the number of RTT and header callbacks.
func (w watcher) seen(t *testing.T) (samples, headers uint64) {
	t.Helper()
	if err := errors.Join(w.counts.Lookup(uint32(rttSample), &samples), w.counts.Lookup(uint32(headerLength), &headers)); err != nil {
		t.Fatal(err)
	}
	return samples, headers
}

// Callbacks of another program on the same sockets continue with egress limits, which need no
// header callback, and after the end of all limits, in either order.
func TestCallbacksOfOtherProgramsAreLeftAlone(t *testing.T) {
	for name, first := range map[string]bool{"before the limits": true, "after them": false} {
		t.Run(name, func(t *testing.T) { leavesCallbacks(t, first) })
	}
}

func leavesCallbacks(t *testing.T, first bool) {
	client, server, address := path(t)
	p, outer, inner := innerScope(t)
	needStorage(t, p)
	listener := echo(t, server, address)
	var others watcher
	if first {
		others = watch(t, outer.Path)
	}
	if err := errors.Join(p.Set(0, Egress, Limit{Rate: MaxRate}), p.Attach(outer.Path)); err != nil {
		t.Fatal(err)
	}
	if !first {
		others = watch(t, outer.Path)
	}
	process, answers := talker(t, inner, client, listener)
	answers.Scan()
	exchange := func() {
		t.Helper()
		if _, err := fmt.Fprintln(process.In); err != nil || !answers.Scan() {
			t.Fatalf("the talker has ended: %v", err)
		}
	}
	goesOn := func(when string) {
		t.Helper()
		exchange() // a cleared callback request takes effect with the next segment
		samples, headers := others.seen(t)
		exchange()
		if s, h := others.seen(t); s == samples || h == headers {
			t.Errorf("%s the other program was called back for %d samples and %d headers of an exchange, want some of both", when, s-samples, h-headers)
		}
	}
	goesOn("under a limit of egress")
	if p.objects.LimitFree == nil {
		testutil.Need(t, "tracing", ErrNoIterator)
	}
	if err := errors.Join(p.closeLinks(), p.Free(client)); err != nil {
		t.Fatal(err)
	}
	goesOn("after the limit's end")
}

// Loopback sockets are neither paced nor clamped, unless the limit covers loopback.
func TestLoopbackSocketsAreLeftAlone(t *testing.T) {
	for _, covered := range []bool{false, true} {
		t.Run(fmt.Sprintf("covered %t", covered), func(t *testing.T) {
			ns := testutil.Namespace(t, "lo")
			conn, err := rtnl.Open(ns)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			p, outer, inner := innerScope(t)
			needStorage(t, p)
			l := Limit{Rate: 10_000_000, Loopback: covered}
			if err := errors.Join(conn.SetUp("lo"), p.Set(0, Egress, l), p.Set(0, Ingress, l), p.Attach(outer.Path)); err != nil {
				t.Fatal(err)
			}
			process, answers := talker(t, inner, ns, echo(t, ns, netip.AddrFrom4([4]byte{127, 0, 0, 1})))
			var rate uint32
			var clamp int
			var in Counters
			// A long first round trip, as on a busy machine, gives a window that bounds nothing.
			for n := 0; n < 3 || covered && in.Windows == 0 && n < 1000; n++ {
				if !answers.Scan() {
					t.Fatal("the talker has ended")
				}
				if _, err := fmt.Sscan(answers.Text(), &rate, &clamp); err != nil {
					t.Fatal(err)
				}
				if _, err := fmt.Fprintln(process.In); err != nil {
					t.Fatal(err)
				}
				in = countersAt(t, p, 0, Ingress)
			}
			if paced := rate != 1<<32-1; paced != covered || in.Windows > 0 != covered {
				t.Errorf("paced at %d octet/s, %d windows set; want that of sockets that are covered: %t", rate, in.Windows, covered)
			}
		})
	}
}
