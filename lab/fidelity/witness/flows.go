// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"fmt"
	"time"

	"weir/internal/units"
	"weir/kernel/protocols"
	"weir/lab/link"
)

// Flow holds the counters of one flow of the run.
type Flow struct {
	Name, From, To string
	TCP, IPv6      bool
	// Connections and Datagrams count opened connections and sent datagrams. Approximate means that
	// the generator adds more.
	Connections, Datagrams uint64
	Approximate            bool
	// Free means that its programs open connections and send datagrams freely.
	Free        bool
	Responses   bool          // data run from To to From
	Begin       time.Duration // since the phase's start
	Settle      time.Duration // of the flow's beginning that is left out of its figures
	Received    []uint64      // payload bytes per Interval since the start of the flow; all streams together
	Interval    time.Duration
	MTU         int
	Rate        units.BitRate // that it holds itself to; 0 for none
	Octets      uint64        // of a flow that ends by size
	There, Back []Hop         // links that its data and the acknowledgements cross
	Concurrent  bool          // its arrivals are judged for stalls
}

// Hop is a direction of a link: its place in Testbed.Links.
type Hop struct {
	Link    int
	Reverse bool
}

// slack is the number of additional connections or datagrams of a generator.
const slack = 16

// opened compares connections and datagrams with those of the flows.
func (b *balancing) opened(flows []Flow) {
	for _, p := range b.bed.Places {
		if p.Tested || b.free[p.Name] {
			continue
		}
		var connections, datagrams, more uint64
		for _, f := range flows {
			if f.Approximate && (f.From == p.Name || f.To == p.Name) {
				more += slack
			}
			if f.From == p.Name {
				connections += f.Connections
				datagrams += f.Datagrams
			}
		}
		ip := b.places[p.Name].ip
		opens, sent := ip["Tcp.ActiveOpens"], ip.Sum("Udp.OutDatagrams", "Udp6.OutDatagrams")
		if opens > connections+more {
			b.say("%s opened %d TCP connections more than its flows have: a foreign flow", p.Name, opens-connections)
		}
		if sent > datagrams+more {
			b.say("%s sent %d datagrams more than its flows: a foreign flow", p.Name, sent-datagrams)
		}
		if sent+more < datagrams {
			b.say("%s: its flows sent %d datagrams, and its UDP %d", p.Name, datagrams, sent)
		}
		if n, unreachable := ip["Icmp.OutMsgs"], ip.Sum("Udp.NoPorts", "Icmp.OutDestUnreachs"); n > unreachable {
			b.say("%s sent %d ICMP messages that no flow of the run asked for", p.Name, n-unreachable)
		}
		if n, known := ip["Icmp6.OutMsgs"], ip.Sum("Udp6.NoPorts", "Icmp6.OutDestUnreachs")+reports(ip)+narrow(p, ip); n > known {
			b.say("%s sent %d ICMPv6 messages that no flow of the run asked for", p.Name, n-known)
		}
	}
}

// narrow are the packets that a place may send back as too large.
func narrow(p Place, ip protocols.Counters) uint64 {
	if !p.Narrow {
		return 0
	}
	return ip["Icmp6.OutPktTooBigs"]
}

// judgeFlows reports flows that exceeded their path, used foreign links, or stalled.
func judgeFlows(bed Testbed, flows []Flow, links []Balance) (reasons []string) {
	reasons = append(reasons, detours(bed, flows, links)...)
	for _, f := range flows {
		if reason := bounded(bed, f); reason != "" {
			reasons = append(reasons, reason)
		}
		if reason := stalled(bed, f, links); reason != "" {
			reasons = append(reasons, reason)
		}
	}
	return reasons
}

// detours finds links that carried frames which no flow sends over them, and links that carried
// less than their flows got.
func detours(bed Testbed, flows []Flow, links []Balance) (reasons []string) {
	if len(flows) == 0 {
		return nil // a frame tester's run
	}
	for n, l := range emulated(bed) {
		for i := range 2 {
			crossed := false
			var octets uint64
			for _, f := range flows {
				hop := Hop{l, i == 1}
				for _, h := range f.There {
					if h == hop {
						crossed = true
						octets += total(f.Received)
					}
				}
				for _, h := range f.Back {
					crossed = crossed || h == hop
				}
			}
			x := links[2*n+i]
			switch {
			case !crossed && x.Received > 0 && !tested(bed):
				reasons = append(reasons, fmt.Sprintf("link %s carried %d frames from %s to %s, though no flow crosses it: traffic took another path", x.Link, x.Received, x.From, x.To))
			case octets > x.SentBytes:
				reasons = append(reasons, fmt.Sprintf("flows got %d bytes over link %s from %s to %s, which carried only %d: traffic took another path", octets, x.Link, x.From, x.To, x.SentBytes))
			}
		}
	}
	return reasons
}

func tested(bed Testbed) bool {
	for _, p := range bed.Places {
		if p.Tested {
			return true
		}
	}
	return false
}

// emulated are the places in Testbed.Links of the emulated ones.
func emulated(bed Testbed) (list []int) {
	for i, l := range bed.Links {
		if l.Emulated {
			list = append(list, i)
		}
	}
	return list
}

func total(octets []uint64) (sum uint64) {
	for _, n := range octets {
		sum += n
	}
	return sum
}

func (t Testbed) direction(h Hop) link.Direction {
	if h.Reverse {
		return t.Links[h.Link].Reverse
	}
	return t.Links[h.Link].Forward
}

// boundShare is the tolerance above the capacity of the path for the length of intervals.
const boundShare = 0.005

// bounded says whether a flow got more, behind its settle time, than the slowest link of its path
// carries in that time. A receiver that had been waiting for one lost segment is handed a round
// trip's worth at once, which iperf3 counts then, so that much more may come.
func bounded(bed Testbed, f Flow) string {
	var slowest units.BitRate
	for _, h := range f.There {
		if rate := bed.direction(h).Peak().Rate; bed.Links[h.Link].Emulated && rate > 0 && (slowest == 0 || rate < slowest) {
			slowest = rate
		}
	}
	first, last := int((f.Settle+f.Interval-1)/f.Interval), len(f.Received)
	if slowest == 0 || last <= first || f.Octets > 0 {
		return ""
	}
	var octets uint64
	for _, n := range f.Received[first:last] {
		octets += n
	}
	header := minHeaders(f)
	share := float64(f.MTU-header) / float64(f.MTU+ethernetHeader+link.FrameOverhead)
	span := time.Duration(last-first) * f.Interval
	most := float64(slowest) / 8 * share * ((1+boundShare)*span.Seconds() + roundTrip(bed, f).Seconds())
	if float64(octets) <= most {
		return ""
	}
	return fmt.Sprintf("flow %s got %s for %s after its settle time, more than the %s that its path can carry: earlier frames were still in flight",
		f.Name, units.BitRate(float64(octets)*8/span.Seconds()), span, units.BitRate(share*float64(slowest)))
}

// minHeaders returns the bytes of IP and transport headers without options.
func minHeaders(f Flow) int {
	ip, transport := 20, 8
	if f.IPv6 {
		ip = 40
	}
	if f.TCP {
		transport = 20
	}
	return ip + transport
}

// roundTrip returns the maximum time from a segment to its acknowledgement, with full queues.
func roundTrip(bed Testbed, f Flow) (sum time.Duration) {
	for _, hops := range [][]Hop{f.There, f.Back} {
		for _, h := range hops {
			if bed.Links[h.Link].Emulated {
				sum += inside(bed.direction(h))
			}
		}
	}
	return sum
}

// A flow stands still where nothing arrives for longer than stallTrips of its round trips with a
// retransmission timeout.
const (
	stallTrips = 3
	minRTO     = 200 * time.Millisecond // Linux
)

// stalled reports whether a flow stopped without a cause: no arrival for a long time, and no loss
// on its path.
func stalled(bed Testbed, f Flow, links []Balance) string {
	if !f.Concurrent || f.Octets > 0 || lossy(bed, f, links) || scheduled(bed, f) {
		return ""
	}
	tolerated := stallTrips * (minRTO + roundTrip(bed, f))
	longest, at, run := 0, 0, 0
	for i, n := range f.Received {
		if run++; n > 0 {
			run = 0
		}
		if run > longest {
			longest, at = run, i+1-run
		}
	}
	if span := time.Duration(longest) * f.Interval; span > tolerated {
		return fmt.Sprintf("flow %s got nothing for %s from %s on, and no link of its path lost a frame: it stopped without a cause",
			f.Name, span, f.Begin+time.Duration(at)*f.Interval)
	}
	return ""
}

// scheduled reports whether a link of the path follows a schedule or has classes, which may starve
// a flow temporarily.
func scheduled(bed Testbed, f Flow) bool {
	for _, hops := range [][]Hop{f.There, f.Back} {
		for _, h := range hops {
			if len(bed.direction(h).Schedule) > 0 || bed.Links[h.Link].Classes {
				return true
			}
		}
	}
	return false
}

// lossy reports whether a link of the path lost a frame.
func lossy(bed Testbed, f Flow, links []Balance) bool {
	for n, l := range emulated(bed) {
		for i := range 2 {
			for _, hops := range [][]Hop{f.There, f.Back} {
				for _, h := range hops {
					if h == (Hop{l, i == 1}) && links[2*n+i].QueueDrops+links[2*n+i].LossDrops > 0 {
						return true
					}
				}
			}
		}
	}
	return false
}
