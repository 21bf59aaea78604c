// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"

	"weir/core/module"
	"weir/kernel/device"
	"weir/kernel/netns"
)

// Attached is an unpinned node of an experiment. It ends with the process. It is not safe for
// concurrent use, except for a reader of its records.
type Attached struct {
	data  *dataPlane
	state module.State
	at    []*device.Attachment
	notes []string
}

// Attach makes a network namespace a node with the state of a module.
func Attach(ns *netns.Namespace, want module.State) (*Attached, error) {
	a := &Attached{state: want}
	if err := a.attach(ns); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

func (a *Attached) attach(ns *netns.Namespace) error {
	p := &hostPlane{ns: ns}
	if err := p.Ready(a.state); err != nil {
		return err
	}
	wanted, err := p.wanted(a.state)
	if err != nil {
		return err
	}
	if a.data, err = load(ns, "", sizesOf(a.state, wanted)); err != nil {
		return err
	}
	found, err := p.lookFor(wanted)
	if err != nil {
		return err
	}
	if len(found.missing) > 0 {
		return fmt.Errorf("there is no device %s", found.missing[0])
	}
	if a.notes, err = p.fill(a.data, module.State{}, a.state, wanted, found.there); err != nil {
		return err
	}
	for _, i := range found.there {
		at, err := a.data.programsAt(i.Device.Name, i.Header == 0, device.Options{})
		if a.at = append(a.at, at...); err != nil {
			return err
		}
	}
	return nil
}

// Notes returns notes for the user.
func (a *Attached) Notes() []string { return a.notes }

// Counts holds the counters of a node since its attach.
type Counts struct {
	// Packets counts packets of its encapsulations, Encapsulated those with options, and LeftAlone
	// those without options for lack of space or rate.
	Packets, Encapsulated, LeftAlone uint64
	Recorded                         uint64 // traces that got the node's data
	Removed                          uint64 // packets with removed options
	Dropped                          uint64 // packets: of the border, malformed, unproven, or at their end here
	Copied                           uint64 // packets sent back
	Unread                           uint64 // records lost in the full ring buffer
}

// Counts reads the counters.
func (a *Attached) Counts() (c Counts, err error) {
	node, err := a.data.nodeCounts()
	if err != nil {
		return c, err
	}
	for _, f := range hostFields {
		if f.drop {
			c.Dropped += node[f.count]
		}
	}
	c.Recorded, c.Removed = node[ioamIoamCountIOAM_RECORDED], node[ioamIoamCountIOAM_REMOVED]
	c.Copied, c.Unread = node[ioamIoamCountIOAM_LOOPED], node[ioamIoamCountIOAM_RING_FULL]
	for _, b := range a.state.Scopes {
		s, err := a.data.scopeCounts(uint32(b.Index))
		if err != nil {
			return c, err
		}
		c.Packets, c.Encapsulated = c.Packets+s.Packets, c.Encapsulated+s.Encapsulated
		c.LeftAlone += s.TooLong + s.NoRoom + s.Jumbo + s.Unflagged + s.Failed + s.Limited
	}
	return c, nil
}

// Minus returns the difference to an earlier reading.
func (c Counts) Minus(before Counts) Counts {
	return Counts{c.Packets - before.Packets, c.Encapsulated - before.Encapsulated, c.LeftAlone - before.LeftAlone,
		c.Recorded - before.Recorded, c.Removed - before.Removed, c.Dropped - before.Dropped, c.Copied - before.Copied, c.Unread - before.Unread}
}

// Edges returns the flows with edge-to-edge options that end here, since the attach.
func (a *Attached) Edges() ([]Edge, error) { return edgesIn(a.data.objects.IoamEdgesReceived) }

// Records opens the records of packets; only one reader at a time.
func (a *Attached) Records() (*Reader, error) {
	return newReader(a.data.objects.IoamRecords, a.data.objects.IoamNode)
}

// Close removes the programs from the devices. Lowered MTUs end with the network namespace.
func (a *Attached) Close() (err error) {
	for _, at := range a.at {
		err = errors.Join(err, at.Close())
	}
	if a.data != nil {
		err = errors.Join(err, a.data.close())
	}
	return err
}
