// SPDX-License-Identifier: Apache-2.0

// Package generator sends schedules of test frames from a device.
//
// Two mechanisms implement it behind one interface. Choose returns the mechanism and the reason:
//   - XDP live frames: a BPF program makes each frame inside the kernel, 2 to 3 million per second
//     and core.
//   - AF_XDP (package packet): this process makes the frames, up to 9000 octets, and sleeps between
//     sparse ones.
//
// Pitfalls:
//   - Live frames enter a veth peer only if it has a native XDP program (an analyzer is one) or
//     GRO; Port.Peer attaches one. Otherwise the peer drops the frames, Generation.Refused counts
//     them and Wait reports them.
//   - A live run occupies one CPU from start to end, waiting included, and ends with a kernel grace
//     period of some 30 ms.
//   - Frames of a batch leave together: their stamps are up to a batch older than their departure.
//     Batch 1 sends each frame by itself, at about half the rate, and is the default for paced
//     streams below a million frames per second.
//   - The program itself enforces duration and frame limit. It runs in a system call of this
//     process, so the end of the process ends it too; nothing is attached to the sending device.
package generator

import (
	"context"
	"fmt"

	"weir/internal/fault"
	"weir/tester"
	"weir/tester/frame"
	"weir/tester/packet"
)

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I/usr/include/x86_64-linux-gnu" -target bpfel -type ended -type action -type outline -type field -type plan -type turn -type progress -type heap -type rounds -type account -type lateness generator generator.bpf.c

// Port is a device to send from.
type Port = packet.Port

// Running is a schedule being sent.
type Running = packet.Running

// The names of the mechanisms, as in tester.Generation.
const (
	Live   = "XDP live frames"
	Packet = packet.Mechanism
)

// MaxLive is the largest frame, FCS included, that live frames carry: it must fit one page with its
// headroom.
const MaxLive = 3400 + tester.FCSSize

// sparse is the frame rate up to which sleeping between frames costs less precision than it saves
// CPU time.
const sparse = 20_000 // frame/s

// Choice is a mechanism and the reason for it.
type Choice struct {
	Mechanism string
	Reason    string
}

// Choose selects the mechanism for a plan; live is the result of the probe LiveFrames.
func Choose(plan []frame.Planned, live error) Choice {
	if live != nil {
		return Choice{Packet, fmt.Sprintf("this kernel has no XDP live frames: %v", live)}
	}
	if reason := unfit(plan); reason != "" {
		return Choice{Packet, reason}
	}
	if rate, full := frame.Rate(plan); !full && rate <= sparse {
		return Choice{Packet, fmt.Sprintf("%.0f frame/s are sparse enough to sleep between them", rate)}
	}
	return Choice{Live, "frames are made in the kernel, at the highest rate"}
}

// unfit returns why live frames cannot send a plan, or "".
func unfit(plan []frame.Planned) string {
	if size := largest(plan) + tester.FCSSize; size > MaxLive {
		return fmt.Sprintf("live frames carry up to %d octets, and the largest frame has %d", MaxLive, size)
	}
	if !onePayload(plan) {
		return "live frames share one payload, and the streams have several"
	}
	return ""
}

// largest returns the maximum frame length of a plan without FCS.
func largest(plan []frame.Planned) int {
	length := 0
	for _, p := range plan {
		for _, t := range p.Templates {
			length = max(length, len(t.Octets))
		}
	}
	return length
}

// onePayload reports whether recycled frames can serve all streams: only the first octets of each
// frame are rewritten.
func onePayload(plan []frame.Planned) bool {
	first := plan[0]
	for _, p := range plan {
		if static(p) != static(first) {
			return false
		}
		if static(p) && (string(p.Payload) != string(first.Payload) || frame.HeaderSize(p.Header) != frame.HeaderSize(first.Header)) {
			return false
		}
	}
	return true
}

// static reports whether the payload is not all zeros.
func static(p frame.Planned) bool { return !p.Stamped && len(p.Payload) > 0 }

// Start checks the schedule, chooses the mechanism and starts to send, until the schedule's end,
// the end of ctx, or Stop.
func Start(ctx context.Context, port Port, schedule tester.Schedule) (Running, error) {
	plan, err := frame.Plan(schedule)
	if err != nil {
		return nil, err
	}
	choice := Choose(plan, LiveFrames())
	if schedule.Policy == tester.Space && LiveFrames() == nil && unfit(plan) == "" {
		choice.Mechanism = Live // even gaps require a busy-waiting sender
	}
	return StartWith(ctx, port, schedule, choice.Mechanism)
}

// StartWith is Start with the mechanism given by the caller.
func StartWith(ctx context.Context, port Port, schedule tester.Schedule, mechanism string) (Running, error) {
	plan, err := frame.Plan(schedule)
	if err != nil {
		return nil, err
	}
	switch mechanism {
	case Live:
		if reason := unfit(plan); reason != "" {
			return nil, fault.New(fault.Usage, "use "+Packet, "send with %s: %s", Live, reason)
		}
		if parts := divide(port, schedule, plan); parts != nil {
			return startGroup(ctx, port, parts)
		}
		return startLive(ctx, port, schedule, plan)
	case Packet:
		return packet.Start(ctx, port, schedule)
	}
	return nil, fault.New(fault.Usage, fmt.Sprintf("use %q or %q", Live, Packet), "there is no mechanism %q", mechanism)
}
