// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"weir/internal/units"
	"weir/internal/yamlfile"
	"weir/lab/link"
	"weir/lab/link/loss"
)

const (
	defaultMTU     = 1500
	defaultPackets = 1000 // Linux's default for a device, if the file describes no queue
	etherHeader    = 14
	maxBDP         = 1000
	minBDP         = 10 // full frames: minimum for a queue given as a bandwidth-delay product
)

func (b *builder) links() {
	if len(b.file.Links) > maxLinks {
		b.complain(b.file.At("links"), "", "links: more than %d links", maxLinks)
		return
	}
	for i, l := range b.file.Links {
		path := fmt.Sprintf("links[%d]", i)
		out := b.link(l, path)
		if slices.ContainsFunc(b.cell.Links, func(have Link) bool { return have.Name == out.Name }) {
			b.complain(l.At("name"), "give each link a name of its own", "%s: there is a link %q already", path, out.Name)
		}
		out.AddressA4, out.AddressB4, out.AddressA6, out.AddressB6 = addresses(i)
		b.cell.Links = append(b.cell.Links, out)
	}
	for i, n := range b.cell.Nodes {
		if !slices.ContainsFunc(b.cell.Links, func(l Link) bool { return l.A == n.Name || l.B == n.Name }) {
			path, f := fmt.Sprintf("hosts[%d]", i), b.file.Hosts
			if n.Router {
				i -= len(b.file.Hosts)
				path, f = fmt.Sprintf("routers[%d]", i), b.file.Routers
			}
			b.complain(f[i].At("name"), "add a link that ends there, or remove it", "%s: no link ends at %q", path, n.Name)
		}
	}
}

func (b *builder) link(l linkFile, path string) Link {
	out := Link{Name: l.Name, MTU: defaultMTU, Plain: l.Plain}
	if l.MTU != nil {
		out.MTU = *l.MTU
		if out.MTU < 1280 || out.MTU > 9000 {
			b.complain(l.At("mtu"), "write a packet size from 1280 to 9000 bytes", "%s.mtu: %d is outside 1280 to 9000", path, out.MTU)
		}
	}
	if len(l.Ends) != 2 {
		b.complain(l.At("ends"), "write the names of two nodes, as in [client, server]", "%s.ends: expected two nodes, found %d", path, len(l.Ends))
		return out
	}
	out.A, out.B = l.Ends[0], l.Ends[1]
	if out.Name == "" {
		out.Name = out.A + "-" + out.B
	}
	if !nodeName.MatchString(out.Name) && l.Name != "" {
		b.complain(l.At("name"), "", "%s.name: %q is no name: use letters, digits, - and _, a letter first, 31 at most", path, out.Name)
	}
	known := b.node(l.At("ends"), path+".ends", out.A) && b.node(l.At("ends"), path+".ends", out.B)
	if known && out.A == out.B {
		b.complain(l.At("ends"), "", "%s.ends: a link from %q to itself", path, out.A)
	}
	out.Classes = b.classes(l, path)
	if l.Plain {
		b.plain(l, path)
		return out
	}
	out.Forward = b.direction(l.directionFile, l.Fields, l.Forward, out.MTU, path, "forward")
	out.Reverse = b.direction(l.directionFile, l.Fields, l.Reverse, out.MTU, path, "reverse")
	return out
}

// plain rejects properties that a bare cable lacks.
func (b *builder) plain(l linkFile, path string) {
	for _, key := range []string{"rate", "delay", "jitter", "loss", "reorder", "duplicate", "corrupt", "queue", "schedule", "trace", "forward", "reverse"} {
		if l.Has(key) {
			b.complain(l.At(key), "remove plain, or this key", "%s.%s: a plain link emulates nothing", path, key)
		}
	}
}

// sided is a direction's settings with their places in the file.
type sided struct {
	directionFile
	common, own yamlfile.Fields
	path, side  string
}

func (s *sided) at(key string) yamlfile.Place {
	if s.own.Has(key) {
		return s.own.At(key)
	}
	return s.common.At(key)
}

// key names a setting in messages: "links[0].forward.rate" if the direction overrides it.
func (s *sided) key(name string) string {
	if s.own.Has(name) {
		return s.path + "." + s.side + "." + name
	}
	return s.path + "." + name
}

// merged returns the link's settings with one direction's overrides.
func merged(d directionFile, o *override) directionFile {
	if o == nil {
		return d
	}
	pick(&d.Rate, o.Rate)
	pick(&d.Delay, o.Delay)
	pick(&d.Jitter, o.Jitter)
	pick(&d.Loss, o.Loss)
	pick(&d.Reorder, o.Reorder)
	pick(&d.Duplicate, o.Duplicate)
	pick(&d.Corrupt, o.Corrupt)
	pick(&d.Queue, o.Queue)
	pick(&d.Schedule, o.Schedule)
	pick(&d.Trace, o.Trace)
	return d
}

func pick[T any](have **T, own *T) {
	if own != nil {
		*have = own
	}
}

func (b *builder) direction(d directionFile, common yamlfile.Fields, o *override, mtu int, path, side string) link.Direction {
	s := &sided{directionFile: merged(d, o), common: common, path: path, side: side}
	if o != nil {
		s.own = o.Fields
	}
	out := link.Direction{Reorder: s.Reorder.value(0), Duplicate: s.Duplicate.value(0), Corrupt: s.Corrupt.value(0)}
	if s.Rate != nil {
		out.Rate = *s.Rate
		if out.Rate == 0 {
			b.complain(s.at("rate"), "remove the key, or write a rate from 1bit to 1000Tbit, such as 100Mbit", "%s: rate 0: a link that carries nothing; leave the key out for no limit", s.key("rate"))
		}
	}
	if s.Delay != nil {
		out.Delay = time.Duration(*s.Delay)
		if out.Delay > maxDelay {
			b.complain(s.at("delay"), tryDelay, "%s: a delay of %s is above %s", s.key("delay"), out.Delay, maxDelay)
		}
	}
	b.jitter(s, &out)
	if s.Loss != nil {
		out.Loss = s.Loss.Read(&loss.Draft{Path: s.key("loss"), Place: s.at("loss"), Complain: b.complain})
	}
	if out.Reorder > 0 && out.Delay == 0 {
		b.complain(s.at("reorder"), "add a delay", "%s: frames are reordered by leaving out their delay, and the link has none", s.key("reorder"))
	}
	b.queue(s, &out, mtu)
	b.schedule(s, &out)
	return out
}

func (b *builder) jitter(s *sided, out *link.Direction) {
	if s.Jitter == nil {
		return
	}
	out.Jitter, out.KeepOrder = time.Duration(s.Jitter.Deviation), s.Jitter.KeepOrder
	out.Shape = link.Uniform
	if s.Jitter.Distribution != "" {
		out.Shape = link.JitterShape(s.Jitter.Distribution)
	}
	switch {
	case out.Jitter > maxDelay:
		b.complain(s.at("jitter"), tryDelay, "%s: a jitter of %s is above %s", s.key("jitter"), out.Jitter, maxDelay)
	case out.Shape == link.Uniform && out.Jitter > out.Delay:
		b.complain(s.at("jitter"), fmt.Sprintf("write a jitter from 0 to the delay of %s, or make the delay longer", out.Delay), "%s: a jitter of %s around a delay of %s would need frames that arrive before they are sent", s.key("jitter"), out.Jitter, out.Delay)
	}
}

// queue reads settings that do not depend on the rest of the topology; queues adds the
// bandwidth-delay products.
func (b *builder) queue(s *sided, out *link.Direction, mtu int) {
	q := s.Queue
	if q == nil {
		if out.Rate > 0 {
			out.Queue.Packets = defaultPackets
		}
		return
	}
	key, at := s.key("queue"), s.at("queue")
	if s.Rate == nil {
		b.complain(at, "add a rate", "%s: a link without a rate has no queue", key)
		return
	}
	frame := units.ByteSize(mtu + etherHeader)
	switch {
	case q.Bytes == nil && q.Packets == nil && q.BDP == nil && q.ECN == nil && q.Discipline == "":
		b.complain(at, "write bytes, packets or bdp", "%s: no length is given", key)
	case q.Bytes != nil && q.BDP != nil:
		b.complain(at, "keep one of them", "%s: bytes and bdp are two lengths for one queue", key)
	case q.Bytes != nil && *q.Bytes < frame:
		b.complain(at, fmt.Sprintf("write a length from %d bytes, one frame, or a number of packets from 1", frame), "%s: %d bytes hold no frame of %d bytes", key, *q.Bytes, frame)
	case q.Packets != nil && *q.Packets < 1:
		b.complain(at, "write a number of packets from 1", "%s: %d packets hold nothing", key, *q.Packets)
	case q.BDP != nil && (*q.BDP <= 0 || *q.BDP > maxBDP):
		b.complain(at, fmt.Sprintf("write a number of bandwidth-delay products above 0 and up to %d", maxBDP), "%s: %g bandwidth-delay products is outside 0 (excluded) to %d", key, *q.BDP, maxBDP)
	case q.RTT != nil && q.BDP == nil:
		b.complain(at, "remove rtt, or give the length in bdp", "%s.rtt: it has a meaning with bdp alone", key)
	}
	b.discipline(q, out, key, at)
	if q.Bytes != nil {
		out.Queue.Bytes = *q.Bytes
	}
	if q.Packets != nil {
		out.Queue.Packets = *q.Packets
	}
	if q.ECN != nil {
		out.Queue.ECN = q.ECN.bytes
		if q.ECN.time > 0 {
			out.Queue.ECN = product(out.Rate, q.ECN.time, 1)
		}
		if out.Queue.ECN == 0 {
			b.complain(at, "leave ecn out to mark nothing", "%s.ecn: a threshold of 0", key)
		}
	}
}

// discipline reads a queue's discipline.
func (b *builder) discipline(q *queueFile, out *link.Direction, key string, at yamlfile.Place) {
	d := link.Discipline(q.Discipline)
	if d == link.DropTail {
		if q.Target != nil || q.Interval != nil || q.Mark {
			b.complain(at, "add a discipline, such as codel", "%s: target, interval and mark have a meaning with a discipline alone", key)
		}
		return
	}
	out.Queue.Discipline, out.Queue.Mark = d, q.Mark
	if q.Bytes == nil && q.Packets == nil && q.BDP == nil {
		out.Queue.Packets = d.Packets()
	}
	if q.ECN != nil {
		b.complain(at, "write mark: true", "%s.ecn: %s does not mark by queue length", key, d)
	}
	for name, given := range map[string]struct {
		value *units.Duration
		to    *time.Duration
	}{"target": {q.Target, &out.Queue.Target}, "interval": {q.Interval, &out.Queue.Interval}} {
		if given.value == nil {
			continue
		}
		if *given.to = time.Duration(*given.value); *given.to < 100*time.Microsecond || *given.to > 10*time.Second {
			b.complain(at, "write a time from 100us to 10s", "%s.%s: %s is outside 100µs to 10s", key, name, *given.to)
		}
	}
}

// product is the number of bytes that a rate carries in a time, times a factor.
func product(rate units.BitRate, d time.Duration, factor float64) units.ByteSize {
	return units.ByteSize(float64(rate) * d.Seconds() * factor / 8)
}

// addresses returns the addresses of the link with an index: an IPv4 /30 of 10.0.0.0/8 and an IPv6
// /64 of fd00::/48.
func addresses(index int) (a4, b4, a6, b6 netip.Prefix) {
	v4 := func(host int) netip.Prefix {
		n := index*4 + host
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), 30)
	}
	v6 := func(host byte) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0xfd, 6: byte(index >> 8), 7: byte(index), 15: host}), 64)
	}
	return v4(1), v4(2), v6(1), v6(2)
}
