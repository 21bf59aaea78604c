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
// counted in packets, TBF where it is counted in octets, CAKE where that is asked for. The second
// is netem with loss, damage, duplication, delay and jitter, so that a lost frame has used the
// bottleneck. Two stages, because one netem counts the frames on their way into its limit, and
// because one with a rate and jitter never lets frames overtake each other.
//
// What bites:
//   - Waiting flows are classes of cake, which come and go.
//   - netem cannot lose every n-th frame, mark by octets that wait, or limit a queue in octets and
//     packets at once: Check says so.
//   - netem may damage the Ethernet header too; the emulator never does.
//   - TBF lets a burst of 100 µs, or one frame, pass at once; netem's rate does not.
//   - Frames that netem marked, reordered or damaged are not counted by the kernel: these counters
//     stay 0, and Lateness nil.
//   - Seeds are honoured from Linux 6.6 on, and repeat choices only for the same sequence of
//     frames.
package netem

import (
	"context"

	"weir/internal/kernel/device"
	"weir/internal/kernel/netns"
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
	case d.Queue.Managed() && d.Queue.Discipline != link.CAKE:
		return "be told to manage a queue by " + string(d.Queue.Discipline)
	case d.Queue.ECN > 0:
		return "mark by the octets that wait"
	case d.Queue.Bytes > 0 && d.Queue.Packets > 0:
		return "limit a queue in octets and in packets at once"
	case d.Rate > 0 && d.Rate < 8:
		return "limit to less than an octet per second"
	}
	return ""
}

// Carry implements [link.Carrier].
func (c *Carrier) Carry(ctx context.Context, ns *netns.Namespace, cables []link.Cable) (link.Carrying, error) {
	r, err := c.Start(ctx, ns, cables)
	if err != nil {
		return nil, err
	}
	return running{r}, nil
}

// running are the chains at work.
type running struct{ *inkernel.Running[*chain] }

// Begin does nothing: netem does not tell the largest backlog.
func (running) Begin() error { return nil }
