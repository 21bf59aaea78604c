// SPDX-License-Identifier: Apache-2.0

package police

import (
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"weir/kernel/cgroup"
	"weir/kernel/testutil"
)

// Verdicts of cgroup_skb programs.
const (
	pass          = 1
	reject        = 2
	packet        = 1514 // octets of a full-sized Ethernet frame without FCS
	drop          = 0
	passAndReduce = 3
)

// plane loads a data plane with scope 0 for all packets of the process.
func plane(t *testing.T, scopes int) *DataPlane {
	t.Helper()
	testutil.NeedRoot(t)
	p, err := Load(scopes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	path, err := cgroup.Root()
	if err != nil {
		testutil.Need(t, "cgroup v2", err)
	}
	root, err := cgroup.Cgroup{Path: path}.ID()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.AssignCgroup(root, 0); err != nil {
		t.Fatal(err)
	}
	return p
}

// datagram builds a UDP packet with the given payload behind an Ethernet header; tos holds DSCP and
// ECN.
func datagram(t *testing.T, ipv6 bool, tos uint8, payload int) []byte {
	t.Helper()
	ethernet := &layers.Ethernet{SrcMAC: []byte{2, 0, 0, 0, 0, 1}, DstMAC: []byte{2, 0, 0, 0, 0, 2}, EthernetType: layers.EthernetTypeIPv4}
	udp := &layers.UDP{SrcPort: 1000, DstPort: 2000}
	var network gopacket.SerializableLayer
	if ipv6 {
		ethernet.EthernetType = layers.EthernetTypeIPv6
		ip := &layers.IPv6{Version: 6, TrafficClass: tos, NextHeader: layers.IPProtocolUDP, HopLimit: 64,
			SrcIP: []byte{0xfd, 15: 1}, DstIP: []byte{0xfd, 15: 2}}
		_ = udp.SetNetworkLayerForChecksum(ip)
		network = ip
	} else {
		ip := &layers.IPv4{Version: 4, TOS: tos, Protocol: layers.IPProtocolUDP, TTL: 64, SrcIP: []byte{10, 0, 0, 1}, DstIP: []byte{10, 0, 0, 2}}
		_ = udp.SetNetworkLayerForChecksum(ip)
		network = ip
	}
	buffer := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buffer, options, ethernet, network, udp, gopacket.Payload(make([]byte, payload))); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// send runs a packet through a program and returns the verdict and the packet afterwards.
func send(t *testing.T, program *ebpf.Program, frame []byte) (uint32, []byte) {
	t.Helper()
	out := make([]byte, len(frame)+64)
	run := &ebpf.RunOptions{Data: frame, DataOut: out}
	verdict, err := program.Run(run)
	if err != nil {
		testutil.Need(t, "BPF_PROG_TEST_RUN of cgroup_skb", err)
	}
	return verdict, run.DataOut
}

// slow returns a rate at which nothing drains during a test: a packet of 1000 wire bytes costs 125
// ms. Thresholds are multiples of that.
func slow(burst, mark, drop int) Limit {
	const each = 125 * time.Millisecond
	return Limit{Rate: MinRate, Burst: time.Duration(burst) * each, Mark: time.Duration(mark) * each, Drop: time.Duration(drop)*each + each/2,
		Reserve: 2 * each, Loopback: true}
}

// drained returns the maximum number of packets that drained from the slow queue since the start,
// plus half a packet.
func drained(since time.Time) uint64 {
	return uint64(time.Since(since)/(125*time.Millisecond/2)+1) / 2
}

// Payloads of datagrams with 1000 wire bytes, Ethernet header included, and with at most 128.
const (
	payload4 = 1000 - 14 - 20 - 8
	payload6 = 1000 - 14 - 40 - 8
)

func TestQueueAdmitsExactlyBurstAndThreshold(t *testing.T) {
	for _, test := range []struct {
		name string
		ipv6 bool
		size int
	}{{"IPv4", false, payload4}, {"IPv6", true, payload6}} {
		t.Run(test.name, func(t *testing.T) {
			p := plane(t, 1)
			if err := p.Set(0, Egress, slow(4, 20, 30)); err != nil {
				t.Fatal(err)
			}
			frame := datagram(t, test.ipv6, 0, test.size)
			admitted, began := uint64(0), time.Now()
			for range 100 {
				verdict, _ := send(t, p.objects.LimitEgress, frame)
				switch verdict {
				case pass:
					admitted++
				case reject:
				default:
					t.Fatalf("verdict %d of a datagram", verdict)
				}
			}
			// Burst 4, drop threshold 30.5 less the reserve of 2: whole packets are admitted while
			// the queue ends at or below it.
			if least, most := uint64(32), 32+drained(began); admitted < least || admitted > most {
				t.Errorf("admitted %d of 100, want %d to %d", admitted, least, most)
			}
			counted, err := p.Counters(0, Egress)
			if err != nil {
				t.Fatal(err)
			}
			if counted.Packets != admitted || counted.Bytes != 1000*admitted || counted.Dropped != 100-admitted {
				t.Errorf("counted %+v, want %d packets of 1000 octets and %d refused", counted, admitted, 100-admitted)
			}
			// The reserve still lets a small packet through.
			if verdict, _ := send(t, p.objects.LimitEgress, datagram(t, test.ipv6, 0, 10)); verdict != pass {
				t.Errorf("verdict %d of a small packet, want pass", verdict)
			}
		})
	}
}

func TestIngressDropsWhereEgressRejects(t *testing.T) {
	p := plane(t, 1)
	if err := p.Set(0, Ingress, slow(1, 2, 5)); err != nil {
		t.Fatal(err)
	}
	frame := datagram(t, false, 0, payload4)
	var last uint32 = pass
	for range 20 {
		last, _ = send(t, p.objects.LimitIngress, frame)
	}
	if last != drop {
		t.Errorf("verdict %d beyond the threshold, want drop", last)
	}
	// Egress of the same scope has no limit.
	if verdict, _ := send(t, p.objects.LimitEgress, frame); verdict != pass {
		t.Errorf("egress verdict %d, want pass", verdict)
	}
}

func TestMarksReachOnlyPacketsThatAreECNCapable(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		for ecn := range uint8(4) {
			p := plane(t, 1)
			// The mark threshold is passed at once; near the drop threshold the probability is
			// close to one.
			if err := p.Set(0, Egress, slow(1, 1, 400)); err != nil {
				t.Fatal(err)
			}
			frame, size := datagram(t, ipv6, ecn, payload4), 200
			marked := 0
			for range size {
				verdict, after := send(t, p.objects.LimitEgress, frame)
				if verdict != pass {
					t.Fatalf("verdict %d", verdict)
				}
				if trafficClass(t, ipv6, after)&3 == 3 && ecn != 3 {
					marked++
				}
			}
			counted, err := p.Counters(0, Egress)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case ecn == 0 && (marked > 0 || counted.Marked > 0):
				t.Errorf("IPv6 %t: %d packets that are not ECN-capable were marked", ipv6, marked)
			case (ecn == 1 || ecn == 2) && (marked == 0 || uint64(marked) != counted.Marked):
				t.Errorf("IPv6 %t, ECT %d: %d packets were marked, %d counted", ipv6, ecn, marked, counted.Marked)
			}
		}
	}
}

func TestShadowCountsAndPassesEverything(t *testing.T) {
	p := plane(t, 1)
	l := slow(4, 20, 30)
	l.Shadow = true
	if err := p.Set(0, Egress, l); err != nil {
		t.Fatal(err)
	}
	frame, began := datagram(t, false, 2, payload4), time.Now()
	for range 100 {
		verdict, after := send(t, p.objects.LimitEgress, frame)
		if verdict != pass {
			t.Fatalf("verdict %d, want pass", verdict)
		}
		if after[15]&3 != 2 {
			t.Fatal("a packet was marked")
		}
	}
	counted, err := p.Counters(0, Egress)
	if err != nil {
		t.Fatal(err)
	}
	if least := 68 - drained(began); counted.Dropped < least || counted.Dropped > 68 {
		t.Errorf("would have dropped %d, want %d to 68", counted.Dropped, least)
	}
}

// trafficClass decodes the packet behind its Ethernet header, which a test run returns as zeros.
func trafficClass(t *testing.T, ipv6 bool, frame []byte) uint8 {
	t.Helper()
	first := layers.LayerTypeIPv4
	if ipv6 {
		first = layers.LayerTypeIPv6
	}
	switch ip := gopacket.NewPacket(frame[14:], first, gopacket.Default).NetworkLayer().(type) {
	case *layers.IPv4:
		return ip.TOS
	case *layers.IPv6:
		return ip.TrafficClass
	}
	t.Fatalf("not IP any more: %x", frame)
	return 0
}
