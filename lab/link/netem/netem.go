// SPDX-License-Identifier: Apache-2.0

// Package netem is a link carrier made of the kernel's own queueing disciplines.
//
// Every direction of a cable is a chain inside the carrier's namespace; a small BPF program at a
// device's ingress moves its frames to the next device's egress, without a bridge and so without
// addresses being learned or frames eaten:
//
//	end A ingress -> [ spare veth egress: rate and queue ] -> [ its peer's ingress ] -> end B egress: netem
//
// The first stage is there only if the direction has a rate: netem's rate where the queue is
// counted in packets, TBF where it is counted in octets, CAKE where that is asked for, and TBF with
// the kernel's codel, fq_codel or pie in front of it where one of them manages the queue. The
// second is netem with loss, damage, duplication, delay and jitter, so that a lost frame has used
// the bottleneck. Two stages, because one netem counts the frames on their way into its limit, and
// because one with a rate and jitter never lets frames overtake each other.
//
// What bites:
//   - Waiting flows are classes of cake and fq_codel, which come and go.
//   - TBF takes one frame out of a discipline before it may send it, so that the discipline does
//     not see that frame wait.
//   - The queues' lengths are read every 20 ms: a queue that is empty again in between is not seen.
//   - netem cannot lose every n-th frame, mark by octets that wait, or limit a queue in octets and
//     packets at once: Check says so.
//   - netem may damage the Ethernet header too; the emulator never does.
//   - TBF lets a burst of 100 µs, or one frame, pass at once; netem's rate does not.
//   - Frames that netem reordered or damaged, or cake marked, are not counted: these counters stay
//     0, and Lateness nil.
//   - Seeds are honoured from Linux 6.6 on, and repeat choices only for the same sequence of
//     frames.
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

// by attaches what brings frames to the next device by hook.
func by(hook device.Mechanism) *Carrier {
	return &Carrier{inkernel.Carrier[*chain]{Name: Mechanism, Hook: hook, Beyond: beyond, Ready: link.Silence,
		New: func(place *inkernel.Place, path inkernel.Path) *chain {
			return &chain{Path: path, place: place, spare: "weir-q" + path.Name}
		}}}
}

// beyond is what netem cannot do.
func beyond(d link.Direction) string {
	_, cannot := d.Loss.Netem()
	switch {
	case cannot != "":
		return cannot
	case len(d.Schedule) > 0:
		return "follow a schedule"
	case d.Queue.Managed() && d.Queue.Discipline != link.CAKE && d.Queue.Bytes > 0:
		return "limit a queue in octets that " + string(d.Queue.Discipline) + " manages"
	case d.Queue.ECN > 0:
		return "mark by the octets that wait"
	case d.Queue.Bytes > 0 && d.Queue.Packets > 0:
		return "limit a queue in octets and in packets at once"
	case d.Rate > 0 && d.Rate < 8:
		return "limit to less than an octet per second"
	}
	return ""
}

// Check refuses what netem cannot do, and a discipline that this kernel lacks.
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

// lacking are the kernel's disciplines that have been asked for, and why it has none.
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
