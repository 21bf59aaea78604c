// SPDX-License-Identifier: Apache-2.0

package police

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/bpf/headers"
	"weir/kernel/testutil"
)

// needHeaders skips a test if cgroup programs cannot access the packet of a test run.
func needHeaders(t *testing.T) {
	t.Helper()
	p := plane(t, 1)
	if err := p.Set(0, Egress, Limit{Rate: 1e9, Loopback: true}); err != nil {
		t.Fatal(err)
	}
	send(t, p.objects.LimitEgress, datagram(t, false, 0, 1473))
	counted, err := p.Counters(0, Egress)
	if err != nil {
		t.Fatal(err)
	}
	if counted.Segments == 1 {
		testutil.Need(t, "headers-of-test-runs", errors.New("a datagram that will be cut is charged as a whole"))
	}
}

// A datagram is charged for its later fragments, including their headers, which dominate with
// extension headers.
func TestDatagramsAreChargedForTheirFragments(t *testing.T) {
	const overhead = 14
	needHeaders(t)
	for _, c := range []struct {
		name             string
		frame            []byte
		segments, octets uint64
	}{
		{"IPv4, whole", datagram(t, false, 0, 1472), 1, 1500 + overhead},
		{"IPv4, in two", datagram(t, false, 0, 1473), 2, 1501 + 20 + 2*overhead},
		{"IPv4, in three", datagram(t, false, 0, 3000), 3, 3028 + 2*20 + 3*overhead},
		{"IPv6, whole", datagram(t, true, 0, 1452), 1, 1500 + overhead},
		{"IPv6, in three", datagram(t, true, 0, 3000), 3, 3048 + 2*48 + 3*overhead},
		// A fragment of 1280 - 40 - 1176 - 8 bytes carries 56 of the 2008 bytes.
		{"IPv6 with a routing header", headers.Insert(datagram(t, true, 0, 2000), headers.Segments(73)), 36, 3224 + 35*(1216+8) + 36*overhead},
		{"IPv6 with a routing header, whole", headers.Insert(datagram(t, true, 0, 40), headers.Segments(2)), 1, 40 + 40 + 8 + 40 + overhead},
	} {
		p := plane(t, 1)
		if err := p.Set(0, Egress, Limit{Rate: 1e9, Loopback: true}); err != nil {
			t.Fatal(err)
		}
		if verdict, _ := send(t, p.objects.LimitEgress, c.frame); verdict != pass {
			t.Errorf("%s: verdict %d", c.name, verdict)
		}
		counted, err := p.Counters(0, Egress)
		if err != nil {
			t.Fatal(err)
		}
		if counted.Segments != c.segments || counted.Bytes != c.octets {
			t.Errorf("%s: %d segments of %d octets were charged, want %d of %d", c.name, counted.Segments, counted.Bytes, c.segments, c.octets)
		}
	}
}

// Every segment of a super-packet repeats all headers, including extension headers.
func TestSegmentsAreChargedWithTheirExtensionHeaders(t *testing.T) {
	const overhead, ethernet, segments, words = 14, 14, 3, 8
	needHeaders(t)
	p := plane(t, 1)
	if err := p.Set(0, Egress, Limit{Rate: 1e9, Loopback: true}); err != nil {
		t.Fatal(err)
	}
	plain := headers.Chain{Name: "no extension header"}
	var before uint64
	for _, c := range append(headers.Chains(), plain) {
		for _, protocol := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
			frame := datagram(t, true, 0, 500)
			frame[ethernet+6], frame[ethernet+40+12] = protocol, words<<4
			frame = headers.Insert(frame, c.Headers...)
			// struct __sk_buff up to gso_segs
			run := ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+64), Context: struct {
				_    [164]byte
				Segs uint32
				_    [24]byte
			}{Segs: segments}}
			if verdict, err := p.objects.LimitEgress.Run(&run); err != nil || verdict != pass {
				testutil.Need(t, "BPF_PROG_TEST_RUN of cgroup_skb", err)
				t.Fatalf("%s: verdict %d", c.Name, verdict)
			}
			upper := headers.Read(frame[ethernet:])
			repeated := upper.At + 8
			if upper.Protocol == unix.IPPROTO_TCP && !upper.Later {
				repeated = upper.At + 4*words
			}
			counted, err := p.Counters(0, Egress)
			if err != nil {
				t.Fatal(err)
			}
			if want := uint64(len(frame) - ethernet + (segments-1)*repeated + segments*overhead); counted.Bytes-before != want {
				t.Errorf("%s before protocol %d: %d octets were charged, want %d", c.Name, protocol, counted.Bytes-before, want)
			}
			before = counted.Bytes
		}
	}
}

// The Hop-by-Hop header that marks a BIG TCP packet is not in its segments, so it is charged once.
func TestTheHeaderOfBigTCPIsChargedOnce(t *testing.T) {
	const overhead, ethernet, segments, words = 14, 14, 40, 8
	needHeaders(t)
	p := plane(t, 1)
	if err := p.Set(0, Egress, Limit{Rate: 1e9, Loopback: true}); err != nil {
		t.Fatal(err)
	}
	var before uint64
	for _, c := range []struct {
		name  string
		mark  []byte
		left  int // bytes of the header in each segment
		other byte
	}{
		{"the mark", []byte{0, 0, 0xc2, 4, 0, 1, 0x86, 0xa0}, 0, 0},
		{"another option", []byte{0, 0, 0x1e, 4, 0, 1, 0x86, 0xa0}, 8, 0},
		{"a packet with a payload length", []byte{0, 0, 0xc2, 4, 0, 1, 0x86, 0xa0}, 8, 1},
	} {
		frame := datagram(t, true, 0, 500)
		frame[ethernet+6], frame[ethernet+40+12] = unix.IPPROTO_TCP, words<<4
		frame = headers.Insert(frame, headers.Header{Kind: headers.HopByHop, Octets: c.mark})
		frame[ethernet+4], frame[ethernet+5] = 0, c.other
		// struct __sk_buff up to gso_segs
		run := ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+64), Context: struct {
			_    [164]byte
			Segs uint32
			_    [24]byte
		}{Segs: segments}}
		if verdict, err := p.objects.LimitEgress.Run(&run); err != nil || verdict != pass {
			testutil.Need(t, "BPF_PROG_TEST_RUN of cgroup_skb", err)
			t.Fatalf("%s: verdict %d", c.name, verdict)
		}
		counted, err := p.Counters(0, Egress)
		if err != nil {
			t.Fatal(err)
		}
		if want := uint64(len(frame) - ethernet + (segments-1)*(40+c.left+4*words) + segments*overhead); counted.Bytes-before != want {
			t.Errorf("%s: %d bytes were charged, want %d", c.name, counted.Bytes-before, want)
		}
		before = counted.Bytes
	}
}
