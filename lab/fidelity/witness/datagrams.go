// SPDX-License-Identifier: Apache-2.0

package witness

import "weir/kernel/protocols"

// cut compares bytes if datagrams cannot be matched by number: a program that sends several at once
// (UDP_SEGMENT) has sent one packet for IP, and the kernel gives each segment its own headers.
// Segments of TCP's super-packets are alike:
//
//	octets of the frames = octets of IP's packets + 14 a frame + the headers of IP and above a frame more
//
// Thus a foreign frame shows unless it is as short as an empty datagram (42 or 62 bytes), or beside
// TCP as an empty segment with all options (94 or 114 bytes).
func (b *balancing) cut(d delta, frames uint64) {
	if d.local.SentPackets > 0 || d.place.Programs != nil || forwarded(d.ip) > 0 || b.bed.Limited || fragments(d.ip) > 0 || reports(d.ip) > 0 {
		return // IP counts more bytes than these frames have, or counts differently
	}
	var octets uint64
	for _, dev := range d.devices {
		if dev.queueDrops > 0 {
			return // reported elsewhere, and their bytes are not counted
		}
		octets += dev.queuedOctets
	}
	known := d.ip.Sum("IpExt.OutOctets", "Ip6.OutOctets") + ethernetHeader*frames
	more := frames - min(frames, d.ip.Sum("Ip.OutRequests", "Ip6.OutRequests"))
	low, high := headers(d.ip)
	fewest, largest := known+low*more, known+high*more
	if octets < fewest || octets > largest {
		b.say("%s: %d frames left with %d bytes, and its protocols sent %d: a foreign flow, or changed datagrams",
			d.place.Name, frames, octets, fewest)
	}
}

// headers returns the minimum and maximum bytes of IP and UDP or TCP headers if a place uses both
// versions or protocols.
func headers(c protocols.Counters) (low, high uint64) {
	const v4, v6, udp, tcp = 20, 40, 8, 60
	low, high = v6+udp, v4+udp
	if c["Ip.OutRequests"] > 0 {
		low = v4 + udp
	}
	if c["Ip6.OutRequests"] > 0 {
		high = v6 + udp
	}
	if c.Sum("Tcp.OutSegs", "Tcp.RetransSegs") > 0 {
		high += tcp - udp
	}
	return low, high
}

func fragments(c protocols.Counters) uint64 { return c.Sum("Ip.FragCreates", "Ip6.FragCreates") }

// sockets reports datagrams dropped at full sockets of a host with programs. Flows of Weir report
// their own.
func (b *balancing) sockets(d delta) {
	if n := d.ip.Sum("Udp.RcvbufErrors", "Udp6.RcvbufErrors", "Udp.MemErrors", "Udp6.MemErrors"); n > 0 && b.free[d.place.Name] {
		b.say("%s: %d datagrams arrived and found their socket's buffer full, so that its program never got them", d.place.Name, n)
	}
}
