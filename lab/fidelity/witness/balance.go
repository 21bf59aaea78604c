// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"fmt"

	"weir/kernel/protocols"
	"weir/kernel/rtnl"
	"weir/lab/link"
)

// Balance holds the frame counters of one direction of an emulated link. Frames:
//
//	Sent by the near host = Received by the link + lost in between
//	Received + Duplicated = QueueDrops + LossDrops + Held + Passed
//	Passed by the link    = Arrived at the far host + lost in between
type Balance struct {
	Link       string
	Reverse    bool
	From, To   string
	Sent       uint64 // by the near device's qdisc; with a frame tester by the device
	SentOctets uint64
	link.Counters
	Arrived       uint64 // counted by the far device
	ArrivedOctets uint64
}

// balancing compares two readings.
type balancing struct {
	bed           Testbed
	places        map[string]delta
	links         []Balance
	frames        uint64
	reports       uint64          // of group memberships, over all places
	free          map[string]bool // places with programs that send arbitrary traffic
	reasons       []string
	before, after reading
}

// delta is the growth of the counters of one place between two readings.
type delta struct {
	place   Place
	ip      protocols.Counters
	devices map[string]deviceDelta
	local   rtnl.Traffic // of the loopback device
	plain   bool         // a device of a plain link, which passes super-packets on
	Programs
}

type deviceDelta struct {
	rtnl.Traffic
	queued, queuedOctets, queueDrops uint64 // by the root qdisc
	counted                          bool   // there is a qdisc that counts
	emulated                         bool
}

func (w *Witness) balance(after reading, flows []Flow) *balancing {
	b := &balancing{bed: w.bed, places: map[string]delta{}, before: w.before, after: after, free: map[string]bool{}}
	for _, f := range flows {
		if f.Free {
			b.free[f.From], b.free[f.To] = true, true
		}
	}
	for _, p := range w.bed.Places {
		d := b.delta(p)
		b.places[p.Name], b.reports = d, b.reports+reports(d.ip)
	}
	b.cross()
	for _, p := range w.bed.Places {
		b.host(b.places[p.Name])
	}
	b.network()
	b.opened(flows)
	return b
}

func (b *balancing) say(format string, args ...any) {
	b.reasons = append(b.reasons, fmt.Sprintf(format, args...))
}

func (b *balancing) delta(p Place) delta {
	before, after := b.before.places[p.Name], b.after.places[p.Name]
	d := delta{place: p, ip: after.protocols.Minus(before.protocols), devices: map[string]deviceDelta{},
		Programs: Programs{after.programs.Dropped - before.programs.Dropped, after.programs.Made - before.programs.Made}}
	emulated := map[string]bool{}
	for _, l := range b.bed.Links {
		for _, end := range []End{l.A, l.B} {
			if end.Place == p.Name {
				emulated[end.Device] = l.Emulated
				d.plain = d.plain || !l.Emulated
			}
		}
	}
	d.local = minus(after.devices["lo"], before.devices["lo"])
	for name := range emulated {
		if _, there := after.devices[name]; !there {
			continue // reported by the configuration
		}
		dev := deviceDelta{emulated: emulated[name], Traffic: minus(after.devices[name], before.devices[name])}
		q, r := before.qdiscs[name], after.qdiscs[name]
		dev.counted = r.Kind != "" && r.Kind != "noqueue" && q.Kind == r.Kind && r.Packets >= q.Packets
		if dev.counted {
			dev.queued, dev.queuedOctets, dev.queueDrops = r.Packets-q.Packets, r.Bytes-q.Bytes, r.Drops-q.Drops
		}
		if dev.counted && p.Programs != nil {
			// IOAM options are added after the qdisc has read the packet's length, and the qdisc's
			// segment count of a super-packet shortened by them is arbitrary.
			dev.queued, dev.queuedOctets = dev.SentPackets, dev.SentOctets
		}
		d.devices[name] = dev
	}
	return d
}

func minus(after, before rtnl.Traffic) rtnl.Traffic {
	return rtnl.Traffic{
		SentPackets: after.SentPackets - before.SentPackets, SentOctets: after.SentOctets - before.SentOctets,
		SentDropped: after.SentDropped - before.SentDropped, ReceivedPackets: after.ReceivedPackets - before.ReceivedPackets,
		ReceivedOctets: after.ReceivedOctets - before.ReceivedOctets, ReceivedDropped: after.ReceivedDropped - before.ReceivedDropped,
	}
}

const ethernetHeader = 14 // bytes

// cross balances every direction of every emulated link.
func (b *balancing) cross() {
	status := link.Difference(b.after.links, b.before.links)
	n := 0
	for _, l := range b.bed.Links {
		if !l.Emulated {
			continue
		}
		if n >= len(status) {
			return
		}
		for i, c := range []link.Counters{status[n].Forward, status[n].Reverse} {
			from, to := l.A, l.B
			if i == 1 {
				from, to = l.B, l.A
			}
			near, far := b.places[from.Place].devices[from.Device], b.places[to.Place].devices[to.Device]
			x := Balance{Link: l.Name, Reverse: i == 1, From: from.Place, To: to.Place, Counters: c,
				Sent: near.queued, SentOctets: near.queuedOctets, Arrived: far.ReceivedPackets, ArrivedOctets: far.ReceivedOctets}
			if b.places[from.Place].place.Tested || !near.counted { // its frames pass no qdisc
				x.Sent, x.SentOctets = near.SentPackets, 0
			}
			if whole := x.SentOctets + ethernetHeader*x.Sent; b.places[from.Place].place.Programs != nil && whole == x.ReceivedBytes {
				x.SentOctets = whole // a veth device excludes the header if its peer polls (NAPI)
			}
			b.links = append(b.links, x)
			b.direction(x, l, near)
		}
		n++
	}
}

// direction reports losses and extra frames of one direction of a link.
func (b *balancing) direction(x Balance, l Link, near deviceDelta) {
	what := "link " + x.Link + ", " + x.From + " to " + x.To
	if near.queueDrops > 0 {
		b.say("%s: the queue of %s's device dropped %d frames without a loss model", what, x.From, near.queueDrops)
	}
	switch {
	case x.Sent > x.Received:
		b.say("%s: %d frames that %s sent did not reach the link", what, x.Sent-x.Received, x.From)
	case x.Received > x.Sent:
		b.say("%s: %d frames reached the link that %s's IP did not send", what, x.Received-x.Sent, x.From)
	case x.SentOctets > 0 && x.ReceivedBytes > 0 && x.SentOctets != x.ReceivedBytes:
		b.say("%s: %d bytes were sent and %d reached the link", what, x.SentOctets, x.ReceivedBytes)
	}
	// Frames lost at a device before the link are overruns too, and already reported.
	if in, out := x.Received+x.Duplicated, x.Counters.Sent+x.QueueDrops+x.LossDrops+x.Held; in != out && x.Overruns == 0 {
		b.say("%s: of %d received frames, %d were accounted for", what, in, out)
	}
	switch {
	case x.Counters.Sent > x.Arrived:
		b.say("%s: %d frames left the link and did not arrive at %s", what, x.Counters.Sent-x.Arrived, x.To)
	case x.Arrived > x.Counters.Sent:
		b.say("%s: %d frames arrived at %s that the link did not send", what, x.Arrived-x.Counters.Sent, x.To)
	case x.SentBytes != x.ArrivedOctets && !b.places[x.To].place.Tested: // XDP counts bytes differently
		b.say("%s: %d bytes left the link and %d arrived at %s", what, x.SentBytes, x.ArrivedOctets, x.To)
	}
}
