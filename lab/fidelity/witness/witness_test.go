// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"strings"
	"testing"
	"time"

	"weir/kernel/protocols"
	"weir/kernel/rtnl"
	"weir/kernel/tc"
	"weir/lab/link"
)

// quiet is a testbed of one link with its counters after a sent 100 frames of 1000 bytes to b: 3
// are lost on purpose, the queue drops 2, and one is duplicated.
func quiet() (*Witness, reading) {
	w := &Witness{bed: Testbed{
		Places: []Place{{Name: "a"}, {Name: "b"}},
		Links: []Link{{Name: "path", Emulated: true, A: End{"a", "dev"}, B: End{"b", "dev"},
			Forward: link.Direction{Rate: 8e6, Delay: 10 * time.Millisecond, Queue: link.Queue{Bytes: 10000}}, Reverse: link.Direction{Rate: 8e6, Queue: link.Queue{Bytes: 10000}}}},
	}}
	zero := func() placeCount {
		return placeCount{protocols.Counters{}, map[string]rtnl.Traffic{"dev": {}}, map[string]tc.Qdisc{"dev": {Kind: "pfifo"}}, Programs{}}
	}
	w.before = reading{places: map[string]placeCount{"a": zero(), "b": zero()}, links: []link.Status{{Cable: "path"}}}
	a, b := zero(), zero()
	a.protocols["Udp.OutDatagrams"] = 100
	a.qdiscs["dev"] = tc.Qdisc{Kind: "pfifo", Packets: 100, Bytes: 100000}
	a.devices["dev"] = rtnl.Traffic{SentPackets: 100}
	b.devices["dev"] = rtnl.Traffic{ReceivedPackets: 96, ReceivedOctets: 96000}
	b.protocols["IpExt.InNoECTPkts"], b.protocols["Ip.InReceives"], b.protocols["Ip.InDelivers"] = 96, 96, 96
	forward := link.Counters{Received: 100, ReceivedBytes: 100000, LossDrops: 3, QueueDrops: 2, Duplicated: 1, Sent: 96, SentBytes: 96000}
	return w, reading{places: map[string]placeCount{"a": a, "b": b}, links: []link.Status{{Cable: "path", Forward: forward}}}
}

func TestBalance(t *testing.T) {
	flow := Flow{From: "a", To: "b", Datagrams: 100}
	for _, c := range []struct {
		name   string
		change func(w *Witness, r *reading, f *Flow)
		want   string // in the reasons; "" for no reason
	}{
		{"a clean run", func(*Witness, *reading, *Flow) {}, ""},
		{"a frame less reaches the link", func(_ *Witness, r *reading, _ *Flow) { r.links[0].Forward.Received-- }, "1 frames that a sent did not reach the link"},
		{"a frame more reaches the link", func(_ *Witness, r *reading, _ *Flow) { r.links[0].Forward.Received++ }, "1 frames reached the link that a's IP did not send"},
		{"bytes change", func(_ *Witness, r *reading, _ *Flow) { r.links[0].Forward.ReceivedBytes-- }, "100000 bytes were sent and 99999 reached the link"},
		{"the link loses one in silence", func(_ *Witness, r *reading, _ *Flow) { r.links[0].Forward.LossDrops-- }, "of 101 received frames, 100 were accounted for"},
		{"one is still inside", func(_ *Witness, r *reading, _ *Flow) { r.links[0].Forward.LossDrops--; r.links[0].Forward.Held = 1 }, ""},
		{"one does not arrive", func(_ *Witness, r *reading, _ *Flow) {
			r.places["b"].devices["dev"] = rtnl.Traffic{ReceivedPackets: 95, ReceivedOctets: 95000}
		}, "1 frames left the link and did not arrive at b"},
		{"IP takes fewer", func(_ *Witness, r *reading, _ *Flow) { r.places["b"].protocols["IpExt.InNoECTPkts"] = 90 }, "its devices received 6 frames that its IP did not receive"},
		{"a packet filter drops", func(_ *Witness, r *reading, _ *Flow) { r.places["b"].protocols["Ip.InDelivers"] = 90 }, "a packet filter drops them"},
		{"dropped before the device", func(_ *Witness, r *reading, f *Flow) {
			r.places["a"].protocols["Udp.OutDatagrams"] = 105
			f.Datagrams = 105
		}, "5 packets that its protocols sent never came to a device"},
		{"a SYN-ACK that was sent again, counted twice by the kernel", func(_ *Witness, r *reading, _ *Flow) {
			r.places["a"].protocols["Tcp.RetransSegs"], r.places["a"].protocols["TcpExt.TCPSynRetrans"] = 2, 2
		}, ""},
		{"segments sent again that never left", func(_ *Witness, r *reading, _ *Flow) { r.places["a"].protocols["Tcp.RetransSegs"] = 2 }, "2 packets that its protocols sent never came to a device"},
		{"a report of a group", func(_ *Witness, r *reading, _ *Flow) {
			r.places["b"].protocols["Icmp6.OutMLDv2Reports"], r.places["b"].protocols["Icmp6.OutMsgs"] = 1, 1
			r.places["a"].protocols["Ip6.InReceives"] = 1
		}, "1 packets that its protocols sent never came to a device"}, // b's device did not send it; a does not complain
		{"a foreign message of ICMPv6", func(_ *Witness, r *reading, _ *Flow) { r.places["b"].protocols["Icmp6.OutMsgs"] = 3 }, "b sent 3 ICMPv6 messages"},
		{"a foreign flow", func(_ *Witness, _ *reading, f *Flow) { f.Datagrams = 60 }, "a sent 40 datagrams more than its flows"},
		{"a program's datagrams that the kernel cut", func(_ *Witness, r *reading, f *Flow) {
			f.Free = true
			r.places["a"].protocols["Udp.OutDatagrams"], r.places["a"].protocols["IpExt.OutOctets"] = 10, 10*(28+10*958)
			r.places["a"].protocols["Ip.OutRequests"] = 10
		}, ""},
		{"a program's datagrams beside TCP's super-packets of two", func(_ *Witness, r *reading, f *Flow) {
			f.Free = true
			r.places["a"].protocols["Udp.OutDatagrams"], r.places["a"].protocols["Tcp.OutSegs"] = 10, 90
			r.places["a"].protocols["IpExt.OutOctets"], r.places["a"].protocols["Ip.OutRequests"] = 10*986+45*(52+2*934), 10+45
		}, ""},
		{"a foreign frame beside them", func(_ *Witness, r *reading, f *Flow) {
			f.Free = true // the last frame is one of a packet socket
			r.places["a"].protocols["Udp.OutDatagrams"], r.places["a"].protocols["IpExt.OutOctets"] = 10, 10*(28+10*958)-958
			r.places["a"].protocols["Ip.OutRequests"] = 10
		}, "100 frames left with 100000 bytes, and its protocols sent 99042"},
		{"a program's datagrams over IPv6", func(_ *Witness, r *reading, f *Flow) {
			f.Free = true
			r.places["a"].protocols["Udp.OutDatagrams"] = 0
			r.places["a"].protocols["Udp6.OutDatagrams"], r.places["a"].protocols["Ip6.OutOctets"] = 10, 10*(48+10*938)
			r.places["a"].protocols["Ip6.OutRequests"] = 10
		}, ""},
		{"a program's datagrams by both", func(_ *Witness, r *reading, f *Flow) {
			f.Free = true
			r.places["a"].protocols["Udp.OutDatagrams"], r.places["a"].protocols["IpExt.OutOctets"] = 5, 5*(28+10*958)
			r.places["a"].protocols["Udp6.OutDatagrams"], r.places["a"].protocols["Ip6.OutOctets"] = 5, 5*(48+10*938)
			r.places["a"].protocols["Ip.OutRequests"], r.places["a"].protocols["Ip6.OutRequests"] = 5, 5
		}, ""},
		{"a program's socket is full", func(_ *Witness, r *reading, f *Flow) {
			f.Free = true
			r.places["a"].protocols["IpExt.OutOctets"], r.places["a"].protocols["Ip.OutRequests"] = 100*986, 100
			r.places["b"].protocols["Udp.RcvbufErrors"] = 3
		}, "b: 3 datagrams arrived and found their socket's buffer full"},
		{"a foreign connection", func(_ *Witness, r *reading, _ *Flow) { r.places["b"].protocols["Tcp.ActiveOpens"] = 1 }, "b opened 1 TCP connections more"},
		{"a generator of its own", func(_ *Witness, _ *reading, f *Flow) { f.Datagrams, f.Approximate = 95, true }, ""},
		{"what a node of a domain has dropped", func(_ *Witness, r *reading, _ *Flow) {
			b := r.places["b"]
			b.protocols["IpExt.InNoECTPkts"], b.protocols["Ip.InReceives"], b.protocols["Ip.InDelivers"] = 90, 90, 90
			b.programs.Dropped = 6
			r.places["b"] = b
		}, ""},
		{"more than a node of a domain has dropped", func(_ *Witness, r *reading, _ *Flow) {
			b := r.places["b"]
			b.protocols["IpExt.InNoECTPkts"], b.protocols["Ip.InReceives"], b.protocols["Ip.InDelivers"] = 90, 90, 90
			b.programs.Dropped = 5
			r.places["b"] = b
		}, "its devices received 1 frames that its IP did not receive"},
		{"a host at which bytes are taken out", func(w *Witness, r *reading, _ *Flow) {
			w.bed.Places[1].Shortens = true
			r.places["b"].protocols["IpExt.InNoECTPkts"] = 10
			r.places["b"].protocols["Ip.InReceives"], r.places["b"].protocols["Ip.InDelivers"] = 10, 10
		}, ""},
		{"what a node of a domain has copied", func(_ *Witness, r *reading, _ *Flow) {
			b := r.places["b"]
			b.protocols["IpExt.InNoECTPkts"], b.protocols["Ip.InReceives"], b.protocols["Ip.InDelivers"] = 98, 98, 98
			b.programs.Made = 2
			r.places["b"] = b
		}, ""},
		{"a node's device that counts no Ethernet header", func(w *Witness, r *reading, _ *Flow) {
			w.bed.Places[0].Programs = func() (Programs, error) { return Programs{}, nil }
			r.places["a"].devices["dev"] = rtnl.Traffic{SentPackets: 100, SentOctets: 100000 - 100*14}
		}, ""},
		{"a node's device that counts them in part", func(w *Witness, r *reading, _ *Flow) {
			w.bed.Places[0].Programs = func() (Programs, error) { return Programs{}, nil }
			r.places["a"].devices["dev"] = rtnl.Traffic{SentPackets: 100, SentOctets: 100000 - 99*14}
		}, "98614 bytes were sent and 100000 reached the link"},
		{"packets that are too large where they get longer", func(w *Witness, r *reading, _ *Flow) {
			w.bed.Places[1].Narrow = true
			r.places["b"].protocols["Ip6.InTooBigErrors"], r.places["b"].protocols["Icmp6.OutPktTooBigs"], r.places["b"].protocols["Icmp6.OutMsgs"] = 1, 1, 1
		}, ""},
		{"wrong checksums", func(_ *Witness, r *reading, _ *Flow) { r.places["b"].protocols["Tcp.InCsumErrors"] = 4 }, "4 packets had a wrong checksum"},
		{"wrong checksums of a link that damages", func(w *Witness, r *reading, _ *Flow) {
			w.bed.Links[0].Forward.Corrupt = 0.1
			r.places["b"].protocols["Tcp.InCsumErrors"] = 4
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, after := quiet()
			f := flow
			c.change(w, &after, &f)
			got := strings.Join(w.balance(after, []Flow{f}).reasons, "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("want %q, got\n%s", c.want, got)
			}
		})
	}
}

func TestFlowsAreJudgedByTheirPath(t *testing.T) {
	w, after := quiet()
	links := w.balance(after, nil).links
	over := []Hop{{0, false}}
	full := func(octets uint64, bins int) (list []uint64) {
		for range bins {
			list = append(list, octets)
		}
		return list
	}
	links[0].QueueDrops, links[0].LossDrops, links[0].SentBytes = 0, 0, 10e6
	for _, c := range []struct {
		name string
		flow Flow
		want string
	}{
		// 8 Mbit/s carry 94.9 kB of TCP payload in 100 ms
		{"what the path carries", Flow{Received: full(94000, 20)}, ""},
		{"more than the path carries", Flow{Received: full(98000, 20)}, "more than the 7.59"},
		{"more, before the settle time alone", Flow{Received: append(full(200000, 2), full(90000, 18)...), Settle: 200 * time.Millisecond}, ""},
		{"stopped", Flow{Received: append(full(90000, 5), full(0, 60)...), Concurrent: true}, "got nothing for 6s from 500ms on"},
		{"a short stop", Flow{Received: append(full(90000, 5), full(0, 3)...), Concurrent: true}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.flow.Name, c.flow.TCP, c.flow.MTU, c.flow.Interval, c.flow.There = "bulk", true, 1500, 100*time.Millisecond, over
			got := strings.Join(judgeFlows(w.bed, []Flow{c.flow}, links), "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("want %q, got\n%s", c.want, got)
			}
		})
	}
	got := strings.Join(judgeFlows(w.bed, []Flow{{Name: "elsewhere", Interval: time.Second}}, links), "\n")
	if !strings.Contains(got, "though no flow crosses it") {
		t.Errorf("a link that carries what no flow sends over it: %q", got)
	}
	w.bed.Links[0].Classes = true
	waiting := Flow{Name: "low", MTU: 1500, Interval: 100 * time.Millisecond, There: over, Received: append(full(90000, 5), full(0, 60)...), Concurrent: true}
	if got := judgeFlows(w.bed, []Flow{waiting}, links); len(got) > 0 {
		t.Errorf("a flow that waits for those of other classes: %q", got)
	}
	links[0].SentBytes = 1000
	got = strings.Join(judgeFlows(w.bed, []Flow{{Name: "bulk", Interval: time.Second, Received: []uint64{5000}, There: over}}, links), "\n")
	if !strings.Contains(got, "which carried only 1000") {
		t.Errorf("a flow that got more than its link carried: %q", got)
	}
}

func TestClocks(t *testing.T) {
	begin := clocks{time.Hour, 2 * time.Hour, time.Hour, 50 * time.Hour}
	on := func(d time.Duration) clocks {
		return clocks{begin.monotonic + d, begin.raw + d, begin.boot + d, begin.real + d}
	}
	if got := compareClocks(begin, on(10*time.Second)); len(got) > 0 {
		t.Errorf("clocks that agree: %v", got)
	}
	frozen := on(10 * time.Second)
	frozen.monotonic -= time.Second
	if got := compareClocks(begin, frozen); len(got) != 3 || !strings.Contains(got[0], "a clock was set, or stopped") {
		t.Errorf("a stopped clock: %v", got)
	}
	slept := on(10 * time.Second)
	slept.boot += time.Second
	if got := compareClocks(begin, slept); len(got) != 1 {
		t.Errorf("a machine that slept: %v", got)
	}
}
