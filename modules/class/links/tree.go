// SPDX-License-Identifier: Apache-2.0

package links

import (
	"slices"
	"time"

	"weir/internal/units"
	"weir/kernel/device"
	"weir/kernel/tc"
)

// Minor numbers in the tree: the class of the whole link, and the first numbers of the classes'
// queues, of their queues for shaped packets, and of the parents of both.
const (
	linkMinor   = 1
	firstMinor  = 0x10
	laterMinor  = 0x110
	bothMinor   = 0x210
	filterOrder = 1
)

// Sizes in bytes, and times.
const (
	ethernetHeader = 14
	vlanTag        = 4
	fullFrame      = 1500 + ethernetHeader + ethernetOverhead
	turn           = 1500 + ethernetHeader // quantum of classes in round robin, to avoid bursts
	// minPackets is the minimum capacity of fq_codel, so that a few flows have one packet each.
	minPackets = 32
	// minWhole has space for some super-packets.
	minWhole = 256 << 10
	// bufferOverhead is the approximate kernel memory of a packet beyond its bytes.
	bufferOverhead = 800
	// slack is the time that a queue sends without a new timer, to tolerate late timers.
	slack = 200 * time.Microsecond
	// minShare is the minimum rate of an HTB class; a weight of 0 is approximated by it.
	minShare       = units.BitRate(8000)
	minLeafPackets = 10_000 // packets of an fq, the kernel's own default
)

// splitBelow is the rate up to which super-packets of all classes are split: at 1 Gbit/s one of
// 64 KiB takes 0.5 ms of the link. Above it only those of less than best effort are split.
const splitBelow = units.BitRate(1e9)

// features holds the qdiscs of this kernel and the requested options.
type features struct {
	fqCodel bool
	later   bool // queues for shaped packets
}

// handleOf returns the handle of a class, or of its queue for unshaped packets if it has two.
// laterOf returns the handle of the queue for shaped packets, bothOf that of their parent. The
// major numbers of leaves follow the tree's.
func handleOf(i int) tc.Handle { return device.RootHandle | tc.Handle(firstMinor+i) }

func laterOf(i int) tc.Handle { return device.RootHandle | tc.Handle(laterMinor+i) }

func bothOf(i int) tc.Handle { return device.RootHandle | tc.Handle(bothMinor+i) }

func leafOf(i int) tc.Handle { return device.RootHandle + tc.Handle(1+2*i)<<16 }

func laterLeafOf(i int) tc.Handle { return leafOf(maxClasses + i) }

// handles returns the classes' handles by DSCP, for a packet and for the inner packet of a tunnel,
// which selects less than best effort only. 0 is best effort.
func (t *Treatment) handles() (all, within [64]uint32) {
	be := t.Classes[slices.IndexFunc(t.Classes, func(c Class) bool { return c.Name == bestEffort })]
	for i, c := range t.Classes {
		less := c.Priority > be.Priority || c.Priority == be.Priority && c.Weight < be.Weight
		for _, d := range c.DSCP {
			all[d] = uint32(handleOf(i))
			if less {
				within[d] = all[d]
			}
		}
	}
	return all, within
}

// tree returns the tree of the device: program is the id of the classifier, mtu that of the device.
func (t *Treatment) tree(program uint32, mtu int, kernel features) device.Tree {
	root := device.RootHandle
	tree := device.Tree{
		Classes: []tc.Raw{tc.HTBClassRaw(root, root|linkMinor, tc.HTBClass{
			Rate: t.Rate, Burst: burst(t.Rate), Quantum: turn, Overhead: t.Overhead})},
		Filters: []tc.Raw{tc.ClassifierBPF(root, filterOrder, "weir_class", program)},
	}
	fallback := uint16(0)
	for i, c := range t.Classes {
		if c.Name == bestEffort {
			fallback = uint16(handleOf(i))
		}
		own := max(share(t.Rate, c.Weight), minShare)
		if kernel.later {
			// Both queues have the share and ceiling of the class together, and alternate.
			tree.Classes = append(tree.Classes, t.htb(root|linkMinor, bothOf(i), c, own), t.htb(bothOf(i), handleOf(i), c, minShare),
				t.htb(bothOf(i), laterOf(i), c, minShare))
			tree.Qdiscs = append(tree.Qdiscs, t.laterLeaf(i, mtu)...)
		} else {
			tree.Classes = append(tree.Classes, t.htb(root|linkMinor, handleOf(i), c, own))
		}
		tree.Qdiscs = append(tree.Qdiscs, t.leaf(i, mtu, kernel)...)
	}
	tree.Qdiscs = append([]tc.Raw{tc.HTBRaw(tc.Place{Handle: root}, fallback)}, tree.Qdiscs...)
	return tree
}

// htb returns the HTB class of a class, with a guaranteed rate.
func (t *Treatment) htb(parent, handle tc.Handle, c Class, own units.BitRate) tc.Raw {
	ceiling := t.ceiling(c)
	return tc.HTBClassRaw(parent, handle, tc.HTBClass{
		Rate: own, Ceil: ceiling, Burst: burst(own), CeilBurst: burst(ceiling), Quantum: turn, Priority: c.Priority, Overhead: t.Overhead})
}

// burst returns the bytes sent at a rate within slack, at least two full frames.
func burst(rate units.BitRate) units.ByteSize { return max(octets(rate, slack), 2*fullFrame) }

func octets(rate units.BitRate, d time.Duration) units.ByteSize {
	return units.ByteSize(float64(rate) / 8 * d.Seconds())
}

// leaf returns the queue of a class.
func (t *Treatment) leaf(i, mtu int, kernel features) (list []tc.Raw) {
	c, full := t.Classes[i], units.ByteSize(mtu+ethernetHeader)
	at := tc.Place{Parent: handleOf(i), Handle: leafOf(i)}
	limit := max(octets(t.ceiling(c), time.Duration(c.Queue)), units.ByteSize(2*maxFrame(mtu)))
	if c.keptIn(kernel) == Cake {
		// cake splits super-packets and limits its kernel memory itself.
		spec := tc.CakeSpec{BestEffort: true, Whole: !t.splits(c), Target: t.patience(c, full), Limit: max(limit/full, minPackets) * (full + bufferOverhead)}
		if spec.Whole {
			spec.Limit = max(spec.Limit, minWhole)
		}
		return append(list, tc.CakeRaw(at, spec))
	}
	if t.splits(c) {
		list = append(list, tc.SplitterRaw(at, maxFrame(mtu), limit))
		at = tc.Place{Parent: at.Handle | 1, Handle: at.Handle + 1<<16}
	}
	switch {
	case c.keptIn(kernel) == FqCodel:
		// The limit is in packets, because the memory limit did not hold on Linux 7.2. fq_codel
		// drops from the longest flow, so small packets of other flows are not affected.
		return append(list, tc.FqCodelRaw(at, tc.FqCodelSpec{ECN: c.ECN != NeverMark, Limit: uint32(max(limit/full, minPackets)), Quantum: uint32(full)}))
	case len(list) > 0:
		return list
	}
	return append(list, tc.BfifoRaw(at, limit))
}

// laterLeaf returns a class's queue for shaped packets: they wait in fq for their departure time,
// and then for service. The shaper's programs drop packets with a departure time too late; fq marks
// packets that wait for service longer than the class's queue.
func (t *Treatment) laterLeaf(i, mtu int) (list []tc.Raw) {
	c := t.Classes[i]
	at := tc.Place{Parent: laterOf(i), Handle: laterLeafOf(i)}
	packets := max(tc.FqCapacity()/uint32(len(t.Classes)), minLeafPackets)
	if t.splits(c) {
		list = append(list, tc.SplitterRaw(at, maxFrame(mtu), units.ByteSize(packets)*units.ByteSize(maxFrame(mtu))))
		at = tc.Place{Parent: at.Handle | 1, Handle: at.Handle + 1<<16}
	}
	spec := tc.FqSpec{Limit: packets, FlowLimit: packets, Horizon: tc.FqHorizon}
	if c.ECN != NeverMark {
		spec.MarkFrom = time.Duration(c.Queue)
	}
	return append(list, tc.FqRaw(at, spec))
}

func (t *Treatment) splits(c Class) bool { return t.Rate <= splitBelow || c.Name == lowEffort }

// patience returns cake's target delay: its default of 5 ms, or 1.5 frames at the class's ceiling,
// as cake sets it with a rate.
func (t *Treatment) patience(c Class, full units.ByteSize) time.Duration {
	const standing = 5 * time.Millisecond
	return max(standing, time.Duration(1.5*8*float64(full)/float64(t.ceiling(c))*float64(time.Second)))
}

// maxFrame returns the maximum frame size of an MTU, with two VLAN tags.
func maxFrame(mtu int) int { return mtu + ethernetHeader + 2*vlanTag }
