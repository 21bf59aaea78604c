// SPDX-License-Identifier: Apache-2.0

// Package netem is a link carrier built from the kernel's own qdiscs.
//
// Every direction of a cable is a chain inside the carrier's namespace. A small BPF program at a
// device's ingress redirects its frames to the next device's egress, without a bridge, which would
// learn addresses and consume some frames:
//
//	end A ingress -> [ spare veth egress: rate and queue ] -> [ its peer's ingress ] -> end B egress: netem
//
// The first stage exists only if the direction has a rate. It is netem's rate if the queue limit is
// in packets, TBF if it is in bytes, CAKE if the discipline is cake, and TBF with the kernel's
// codel, fq_codel or pie as its queue for those disciplines. The second stage is netem with loss,
// damage, duplication, delay and jitter, so that a lost frame has used the bottleneck. One netem
// could not do both: it counts frames in flight into its limit, and with a rate and jitter it never
// lets frames overtake each other.
//
// Pitfalls:
//   - Waiting flows are classes of cake and fq_codel, which appear and disappear.
//   - TBF dequeues one frame from a discipline before it may send it, so the discipline does not
//     count that frame's wait.
//   - Queue lengths are read every 20 ms, which misses shorter queues.
//   - netem cannot lose every n-th frame, mark by queued bytes, or limit a queue in bytes and
//     packets at once; Check reports it.
//   - netem may damage the Ethernet header too; the emulator never does.
//   - TBF lets a burst of 100 µs, or one frame, pass at once; netem's rate does not.
//   - Frames reordered or damaged by netem, or marked by cake, are not counted: these counters stay
//     0, and Lateness nil.
//   - Seeds work from Linux 6.6 on, and repeat choices only for the same sequence of frames.
package netem

import (
	"context"
	"fmt"
	"sync"

	"weir/internal/fault"
	"weir/kernel/device"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/lab/link"
	"weir/lab/link/inkernel"
)

// Mechanism is the carrier's name in manifests.
const Mechanism = "netem"

// Carrier sets up netem.
type Carrier struct{ inkernel.Carrier[*chain] }

// New returns a carrier.
func New() *Carrier { return by("") }

// by returns a carrier that attaches the redirect programs by hook.
func by(hook device.Mechanism) *Carrier {
	return &Carrier{inkernel.Carrier[*chain]{Name: Mechanism, Hook: hook, Beyond: beyond, Ready: link.Silence,
		New: func(place *inkernel.Place, path inkernel.Path) *chain {
			return &chain{Path: path, place: place, spare: "weir-q" + path.Name}
		}}}
}

// beyond describes the properties that netem does not support.
func beyond(d link.Direction) string {
	_, cannot := d.Loss.Netem()
	switch {
	case cannot != "":
		return cannot
	case len(d.Schedule) > 0:
		return "follow a schedule"
	case d.Queue.Managed() && d.Queue.Discipline != link.CAKE && d.Queue.Bytes > 0:
		return "limit a queue in bytes under " + string(d.Queue.Discipline)
	case d.Queue.ECN > 0:
		return "mark by queued bytes"
	case d.Queue.Bytes > 0 && d.Queue.Packets > 0:
		return "limit a queue in bytes and in packets at once"
	case d.Rate > 0 && d.Rate < 8:
		return "limit to less than an octet per second"
	}
	return ""
}

// Check rejects unsupported properties, and a discipline that this kernel lacks.
func (c *Carrier) Check(cable link.Cable) error {
	if err := c.Carrier.Check(cable); err != nil {
		return err
	}
	for _, d := range []link.Direction{cable.Forward, cable.Reverse} {
		if err := lacks(d.Queue.Discipline); err != nil {
			return fault.Wrap(fmt.Errorf("cable %s: %w", cable.Name, err), fault.Testbed, "use --carrier emulator for this scenario")
		}
	}
	return nil
}

// lacking caches the kernel's missing disciplines with the error of each probe.
var lacking sync.Map // link.Discipline to error

func lacks(d link.Discipline) error {
	if d == link.DropTail {
		return nil
	}
	if known, asked := lacking.Load(d); asked {
		err, _ := known.(error)
		return err
	}
	err := probe.Qdisc(string(d))
	lacking.Store(d, err)
	return err
}

// Carry implements [link.Carrier].
func (c *Carrier) Carry(ctx context.Context, ns *netns.Namespace, cables []link.Cable) (link.Carrying, error) {
	r, err := c.Start(ctx, ns, cables)
	if err != nil {
		return nil, err
	}
	return newRunning(r), nil
}
