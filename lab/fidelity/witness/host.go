// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"math"

	"weir/kernel/protocols"
)

// The kernel counts a GSO or GRO super-packet as its segments in these counters, and as one packet
// in the others.
var (
	inSegments = []string{"IpExt.InNoECTPkts", "IpExt.InECT0Pkts", "IpExt.InECT1Pkts", "IpExt.InCEPkts",
		"Ip6.InNoECTPkts", "Ip6.InECT0Pkts", "Ip6.InECT1Pkts", "Ip6.InCEPkts"}
	outSegments = []string{"Tcp.OutSegs", "Tcp.RetransSegs", "Udp.OutDatagrams", "Udp6.OutDatagrams", "Icmp.OutMsgs", "Icmp6.OutMsgs"}
)

func received(c protocols.Counters) uint64 { return c.Sum("Ip.InReceives", "Ip6.InReceives") }
func delivered(c protocols.Counters) uint64 {
	return c.Sum("Ip.InDelivers", "Ip6.InDelivers")
}
func forwarded(c protocols.Counters) uint64 {
	return c.Sum("Ip.ForwDatagrams", "Ip6.OutForwDatagrams")
}

// answersAgain bounds the number of retransmitted SYN-ACKs of a host. The kernel counts each twice,
// as a sent segment and as a retransmission (tcp_rtx_synack). It has no separate counter for
// retransmitted SYNs; a host that opens no connection has none.
func answersAgain(c protocols.Counters) (least, most uint64) {
	again := c["TcpExt.TCPSynRetrans"]
	if c["Tcp.ActiveOpens"] > 0 {
		return 0, again
	}
	return again, again
}

// reports counts a host's memberships of IPv6 groups. The kernel repeats the reports hours after a
// device got its address; a receiver that is no router drops them uncounted.
func reports(c protocols.Counters) uint64 {
	return c.Sum("Icmp6.OutMLDv2Reports", "Icmp6.OutGroupMembResponses", "Icmp6.OutGroupMembReductions")
}

// discarded counts packets that IP dropped and counted.
func discarded(c protocols.Counters) uint64 {
	return c.Sum("Ip.InHdrErrors", "Ip.InAddrErrors", "Ip.InUnknownProtos", "Ip.InDiscards", "IpExt.InNoRoutes", "IpExt.InTruncatedPkts",
		"Ip6.InHdrErrors", "Ip6.InTooBigErrors", "Ip6.InNoRoutes", "Ip6.InAddrErrors", "Ip6.InUnknownProtos", "Ip6.InTruncatedPkts", "Ip6.InDiscards")
}

// host balances the packets of one place with its devices.
func (b *balancing) host(d delta) {
	name := d.place.Name
	if !d.place.Tested {
		b.in(d)
		b.out(d)
		b.sockets(d)
	}
	if n, known := received(d.ip), delivered(d.ip)+forwarded(d.ip)+discarded(d.ip); n > known+b.reports {
		b.say("%s: %d packets that its IP received were delivered to no protocol and not passed on: a packet filter drops them", name, n-known)
	}
	if b.corrupts() {
		return
	}
	if n := discarded(d.ip) - d.tooLarge(); n > 0 {
		b.say("%s: its IP discarded %d packets as faulty, too large or without a route", name, n)
	}
	if n := d.ip.Sum("Tcp.InCsumErrors", "Udp.InCsumErrors", "Udp6.InCsumErrors"); n > 0 {
		b.say("%s: %d packets had a wrong checksum, and no link has corrupt", name, n)
	}
}

// tooLarge counts packets that IP may reject as too large because they grow at this place.
func (d delta) tooLarge() uint64 {
	if !d.place.Narrow {
		return 0
	}
	return d.ip["Ip6.InTooBigErrors"]
}

// corrupts reports whether a link is configured to damage frames.
func (b *balancing) corrupts() bool {
	for _, l := range b.bed.Links {
		if l.Forward.Corrupt > 0 || l.Reverse.Corrupt > 0 {
			return true
		}
	}
	return false
}

// in compares the frames that the devices received with the packets that IP received.
func (b *balancing) in(d delta) {
	var frames, dropped uint64
	for name, dev := range d.devices {
		frames += dev.ReceivedPackets
		if !dev.emulated { // the watch judges emulated links
			dropped += dev.ReceivedDropped + dev.SentDropped
			if n := dev.ReceivedDropped + dev.SentDropped; n > 0 {
				b.say("%s: device %s lost %d packets without a loss model", d.place.Name, name, n)
			}
		}
	}
	taken := d.ip.Sum(inSegments...)
	if d.plain {
		taken = received(d.ip) // devices of plain links count super-packets
	}
	frames += d.local.ReceivedPackets
	uncut := b.uncut(d)
	switch {
	case d.plain && d.mixed():
	case frames > taken+d.Dropped+uncut:
		b.say("%s: its devices received %d frames that its IP did not receive", d.place.Name, frames-taken-d.Dropped-uncut)
	case uncut < unknown && taken+uncut > frames+d.Made:
		b.say("%s: %d frames left that did not come in", d.place.Name, taken+uncut-frames-d.Made)
	case taken > frames+d.Made:
		b.say("%s: its IP took %d packets that came from no device of a link", d.place.Name, taken-frames-d.Made)
	}
}

// mixed reports devices of both emulated and plain links, which count differently.
func (d delta) mixed() bool {
	for _, dev := range d.devices {
		if dev.emulated {
			return true
		}
	}
	return false
}

// out compares packets sent by protocols with frames sent by devices of emulated links.
func (b *balancing) out(d delta) {
	sent, frames, known := outgoing(d)
	if !known {
		return
	}
	b.frames += d.ip.Sum(outSegments...)
	least, most := answersAgain(d.ip)
	switch {
	case b.bed.Limited && sent-most > frames:
	case sent-most > frames+d.Dropped+(maxSegments-1)*d.tooLarge():
		b.say("%s: %d packets that its protocols sent never came to a device: something inside drops them", d.place.Name, sent-most-frames-d.Dropped)
	case b.uncounted(d):
		b.cut(d, frames)
	case frames > sent-least+b.uncut(d):
		b.say("%s: %d frames left that none of its protocols sent: a foreign flow", d.place.Name, frames-sent+least)
	}
}

// maxSegments is the maximum number of segments of 1280 bytes in a super-packet, which IP counts as
// one when it sends it back.
const maxSegments = 52

// outgoing returns the segments that a place's protocols sent or forwarded, and the frames of its
// devices. They are unknown if a device does not count, or if a router also sends for itself.
func outgoing(d delta) (sent, frames uint64, known bool) {
	for _, dev := range d.devices {
		if !dev.counted || !dev.emulated {
			return 0, 0, false
		}
		frames += dev.queued + dev.queueDrops
	}
	frames += d.local.SentPackets
	sent = d.ip.Sum(outSegments...)
	if through := forwarded(d.ip); through > 0 {
		if delivered(d.ip) > 0 {
			return 0, 0, false // no counter separates forwarded segments from received ones
		}
		sent += d.ip.Sum(inSegments...) - discarded(d.ip)
	}
	return sent, frames, true
}

// unknown is more segments than any run has.
const unknown = math.MaxUint32

// uncut counts segments that IP received and forwarded inside super-packets without a segment
// count: programs that shorten a super-packet clear that number. They leave as frames.
func (b *balancing) uncut(d delta) uint64 {
	sent, frames, known := outgoing(d)
	switch {
	case !d.place.Shortens:
		return 0
	case !known || forwarded(d.ip) == 0:
		return unknown
	case frames <= sent:
		return 0
	}
	return frames - sent
}

// uncounted reports whether a place may have sent more datagrams than it counted: UDP_SEGMENT
// counts once for several.
func (b *balancing) uncounted(d delta) bool {
	return b.free[d.place.Name] && d.ip.Sum("Udp.OutDatagrams", "Udp6.OutDatagrams") > 0
}

// network balances all hosts with all links, in segments. With plain links no other balance is
// exact.
func (b *balancing) network() {
	var sent, twiceLeast, twiceMost, arrived, in, out, dropped uint64
	plain, uncounted := false, false
	for _, d := range b.places {
		plain, uncounted, dropped = plain || d.plain, uncounted || b.uncounted(d), dropped+d.Dropped
		if d.place.Tested || d.place.Shortens && forwarded(d.ip) == 0 {
			return
		}
		if forwarded(d.ip) > 0 {
			if delivered(d.ip) > 0 || d.ip.Sum(outSegments...) > 0 {
				return
			}
			continue
		}
		least, most := answersAgain(d.ip)
		sent, twiceLeast, twiceMost = sent+d.ip.Sum(outSegments...), twiceLeast+least, twiceMost+most
		arrived += d.ip.Sum(inSegments...)
	}
	for _, x := range b.links {
		in, out = in+x.Received, out+x.Counters.Sent
	}
	b.frames = max(b.frames, sent)
	if !plain || b.bed.Limited {
		return
	}
	switch want, got := int64(sent)-int64(in)+int64(out), int64(arrived); {
	case want-int64(twiceMost+dropped) > got:
		b.say("%d frames got lost between the hosts without a loss model", want-int64(twiceMost+dropped)-got)
	case want-int64(twiceLeast) < got && !uncounted:
		b.say("%d frames arrived at hosts that none of them sent", got-want+int64(twiceLeast))
	}
}
