// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"weir/kernel/testutil"
	"weir/modules/offload/plan"
)

// shot is a frame sent to the router through one of its links.
type shot struct {
	frame
	name string
	by   int // which link
	// fast requires that a backend forwards the frame, slow that it does not.
	fast, slow bool
	// split allows another next hop of a multipath route than that of the kernel.
	split bool
}

// result maps frame numbers to outputs: side and frame.
type result map[uint32][]string

// fire sends all shots and returns the output of the router.
func (b *Bench) fire(t testing.TB, shots []shot) result {
	t.Helper()
	got := result{}
	const few = 64 // fewer than the ring of a veth holds
	for at := 0; at < len(shots); at += few {
		b.volley(t, shots[at:min(len(shots), at+few)], uint32(at), got)
	}
	for n := range got {
		slices.Sort(got[n])
	}
	return got
}

// volley sends some shots, numbered from first on, followed by frames that the router certainly
// forwards, by the backend and by its CPU. Their arrival shows that all earlier ones are through.
func (b *Bench) volley(t testing.TB, shots []shot, first uint32, got result) {
	t.Helper()
	for i, s := range shots {
		if err := b.sockets[b.links[s.by].side].send(s.bytes(first + uint32(i))); err != nil {
			t.Fatalf("send %s: %v", s.name, err)
		}
	}
	awaited := map[uint32]bool{}
	b.number = max(b.number, lastNumber)
	for by := range 2 {
		for _, f := range b.last(by) {
			awaited[b.number] = true
			if err := b.sockets[b.links[by].side].send(f.bytes(b.number)); err != nil {
				t.Fatal(err)
			}
			b.number++
		}
	}
	t.Cleanup(func() {
		if len(awaited) > 0 {
			t.Logf("these have not arrived: %v of %d", awaited, b.number)
		}
	})
	testutil.Eventually(t, 30*time.Second, "the arrival of forwarded frames", func() bool {
		for side, s := range b.sockets {
			frames, err := s.receive()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range frames {
				n, ours := numberOf(f)
				delete(awaited, n)
				if ours && n < lastNumber && !rationed(f) {
					got[n] = append(got[n], fmt.Sprintf("%d %s", side, hex.EncodeToString(settled(f))))
				}
			}
		}
		return len(awaited) == 0
	})
}

// awaitForwarding sends frames both ways until one arrives on each side: a device drops frames
// until the link watch of the kernel has activated its queue.
func (b *Bench) awaitForwarding(t testing.TB) {
	t.Helper()
	b.number = max(b.number, lastNumber)
	arrived := [2]bool{}
	testutil.Eventually(t, 30*time.Second, "the forwarding of frames both ways", func() bool {
		for by := range 2 {
			if arrived[1-by] {
				continue
			}
			if err := b.sockets[b.links[by].side].send(b.last(by)[0].bytes(b.number)); err != nil {
				t.Fatal(err)
			}
			b.number++
		}
		for side, s := range b.sockets {
			frames, err := s.receive()
			if err != nil {
				t.Fatal(err)
			}
			arrived[side] = arrived[side] || slices.ContainsFunc(frames, func(f []byte) bool { _, ours := numberOf(f); return ours })
		}
		return arrived[0] && arrived[1]
	})
}

// lastNumber is the first number of the frames that end a volley, each used once.
const lastNumber = 1 << 24

// last returns frames between the cables. No backend forwards the second one: it has an option, or
// an address that the policy leaves to the CPU.
func (b *Bench) last(by int) (all []frame) {
	in, out := b.links[by], b.links[1-by]
	plain := frame{to: in.mac, from: state02(in, 2), source: in.host(2, false), dest: out.host(2, false), ttl: 9}
	slow := plain
	slow.dest = out.host(3, false)
	slow.ttl = 9
	return []frame{plain, slow, {to: in.mac, from: state02(in, 2), source: in.host(2, true), dest: out.host(2, true), ttl: 9}}
}

// state02 is the link-layer address of a host on a link.
func state02(l link, host int) [6]byte { return [6]byte{2, 0xaa, 0, 0, byte(l.net), byte(host)} }

// slowHosts are left to the CPU by every plan of the suite: see last.
func (b *Bench) slowHosts() (all []netip.Prefix) {
	for _, l := range b.links {
		all = append(all, netip.PrefixFrom(l.host(3, false), 32))
	}
	return all
}

// compare fires the shots by the kernel and by the backend, and judges.
func (b *Bench) compare(t *testing.T, backend Backend, shots []shot, known func(shot) bool) {
	t.Helper()
	kernel := b.fire(t, shots)
	p := b.Plan(t, func(p *plan.Policy) { p.Except = b.slowHosts() })
	forwarded := backend.Install(t, b.Router, p)
	before := forwarded()
	fast := b.fire(t, shots)
	total := forwarded() - before
	volleys := uint64(len(shots)+63) / 64
	least, most := 4*volleys, 6*volleys // number of last frames
	wrong := 0
	for i, s := range shots {
		want, got := kernel[uint32(i)], fast[uint32(i)]
		if s.split {
			want, got = anyWay(want), anyWay(got)
		}
		if !slices.Equal(want, got) && (known == nil || !known(s)) {
			if wrong++; wrong <= 5 {
				t.Errorf("%s: packet to %s by %s: the kernel sends %q, with the backend comes %q\nframe %s", s.name, s.dest, b.links[s.by].name, want, got,
					hex.EncodeToString(s.bytes(uint32(i))))
			}
		}
		if s.fast {
			least++
			if len(want) == 0 {
				t.Errorf("%s: the kernel forwards nothing: the case is none", s.name)
			}
		}
		if !s.slow {
			most++
		}
	}
	t.Logf("the backend has forwarded %d of %d frames", total, len(shots))
	if total < least || total > most {
		t.Errorf("the backend has forwarded %d of %d frames, want %d to %d", total, len(shots), least, most)
	}
}

// anyWay removes the byte of the link-layer destination that identifies the next hop.
func anyWay(all []string) (out []string) {
	for _, text := range all {
		b := bytes.Clone([]byte(text))
		const last = 2 + 2*5 // behind the side
		copy(b[last:], "..")
		out = append(out, string(b))
	}
	return out
}
