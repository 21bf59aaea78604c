// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"weir/kernel/sysctl"
	"weir/kernel/testutil"
	"weir/modules/offload/simulate"
	"weir/modules/offload/state"
)

// Limits names the fields that a backend cannot see, with expected differences to the kernel.
type Limits struct {
	// Headers: it ignores options, lengths and checksums of IPv4.
	Headers bool
	// Ways: it leaves links with a reverse-path filter, multipath routes, and possibly too long
	// packets to the CPU.
	Ways bool
}

// expected relaxes the expectations by the limits.
func (l Limits) expected(all []shot) []shot {
	narrow := netip.MustParsePrefix("100.67.0.0/16")
	for i := range all {
		if s := &all[i]; l.Ways && (s.split || narrow.Contains(s.dest)) {
			s.fast, s.slow = false, true
		}
		if s := &all[i]; l.known(*s) {
			s.fast, s.slow = false, false
		}
	}
	return all
}

func (l Limits) known(s shot) bool {
	return l.Headers && (len(s.options) > 0 || s.badSum || s.length != 0 || s.padding > 0)
}

// Run runs the suite.
func Run(t *testing.T, backend Backend, limits Limits) {
	for name, filter := range map[string]string{"without a reverse-path filter": "0", "with a strict one": "1", "with a loose one": "2"} {
		if limits.Ways && filter != "0" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			b := NewBench(t)
			if err := sysctl.Set(b.Router, "net.ipv4.conf.all.rp_filter", filter); err != nil {
				t.Fatal(err)
			}
			b.Read(t)
			b.compare(t, backend, limits.expected(b.cases(filter != "0")), limits.known)
		})
	}
	t.Run("over bonds", func(t *testing.T) {
		b := NewBonded(t)
		b.compare(t, backend, limits.expected(b.cases(false)), limits.known)
	})
	t.Run("random frames", func(t *testing.T) {
		b := NewBench(t)
		b.compare(t, backend, b.random(testutil.Rand(t), 3000), limits.known)
	})
}

// plain returns a frame of host 2 of a link.
func (b *Bench) plain(by int, dest string) frame {
	to := netip.MustParseAddr(dest)
	in := b.links[by]
	return frame{to: in.mac, from: state02(in, 2), vlan: in.vlan, source: in.host(2, to.Is6()), dest: to, ttl: 64}
}

// cases returns frames for each function of a router. With a filter, sources count.
func (b *Bench) cases(filtered bool) (all []shot) {
	fast := func(name string, f frame, by int) { all = append(all, shot{frame: f, name: name, by: by, fast: true}) }
	slow := func(name string, f frame, by int) { all = append(all, shot{frame: f, name: name, by: by, slow: true}) }
	change := func(f frame, c func(*frame)) frame { c(&f); return f }
	for _, dest := range []string{"100.64.0.9", "100.64.127.255", "100.64.200.4", "100.64.255.255", "10.2.0.2", "100.67.1.1",
		"2001:db8:6400::9", "2001:db8:64c8::4", "2001:db8:2::2", "2001:db8:2::3"} {
		f := b.plain(0, dest)
		fast("forwarded", f, 0)
		fast("the last hop but one", change(f, func(f *frame) { f.ttl = 2 }), 0)
		slow("the last hop", change(f, func(f *frame) { f.ttl = 1 }), 0)
		slow("no hop left", change(f, func(f *frame) { f.ttl = 0 }), 0)
		fast("a type of service", change(f, func(f *frame) { f.tos = 0xb9 }), 0)
		slow("another host's", change(f, func(f *frame) { f.to = [6]byte{2, 9, 9, 9, 9, 9} }), 0)
		slow("a broadcast frame", change(f, func(f *frame) { f.to = [6]byte{255, 255, 255, 255, 255, 255} }), 0)
		fast("padding", change(f, func(f *frame) { f.padding = 7 }), 0)
		slow("longer than it is", change(f, func(f *frame) { f.length = 1 }), 0)
		all = append(all, shot{name: "shorter than it is", by: 0, frame: change(f, func(f *frame) { f.size, f.length = 40, -20 })})
		if f.dest.Is4() {
			slow("options", change(f, func(f *frame) { f.options = []byte{1, 1, 1, 0} }), 0)
			slow("record route", change(f, func(f *frame) { f.options = []byte{7, 7, 4, 0, 0, 0, 0, 0} }), 0)
			slow("wrong checksum", change(f, func(f *frame) { f.badSum = true }), 0)
			fast("first fragment", change(f, func(f *frame) { f.offset = 0x2000 }), 0)
			fast("later fragment", change(f, func(f *frame) { f.offset = 0x2010 }), 0)
			fast("do not fragment", change(f, func(f *frame) { f.offset = 0x4000 }), 0)
		} else {
			slow("hop-by-hop options", change(f, func(f *frame) { f.next, f.headers = hopByHop, []byte{udp, 0, 1, 4, 0, 0, 0, 0} }), 0)
			slow("destination options", change(f, func(f *frame) { f.next, f.headers = 60, []byte{udp, 0, 1, 4, 0, 0, 0, 0} }), 0)
			fast("fragment header", change(f, func(f *frame) { f.next, f.headers = 44, []byte{udp, 0, 0, 1, 0, 0, 0, 7} }), 0)
		}
	}
	for _, dest := range []string{"100.64.128.9", "100.64.0.1", "10.1.0.2", "2001:db8:6480::9", "2001:db8:6400::1", "2001:db8:1::2"} {
		fast("the other way", b.plain(1, dest), 1)
		slow("back by its link", b.plain(0, dest), 0)
	}
	for _, dest := range []string{"100.64.200.5", "100.66.1.1", "100.68.1.1", "100.99.1.1", "10.2.0.1", "10.2.0.255", "10.2.0.77", "127.0.0.1", "0.0.0.7",
		"224.0.0.5", "239.1.1.1", "255.255.255.255", "169.254.1.1", "240.0.0.1", "10.1.0.3",
		"2001:db8:64c8::5", "2001:db8:6600::1", "2001:db8:6800::1", "2001:db8:9999::1", "2001:db8:2::1", "2001:db8:2::77", "ff02::5", "fe80::9", "::1", "::7"} {
		slow("left to the CPU", b.plain(0, dest), 0)
	}
	big := b.plain(0, "100.67.1.1")
	fast("as long as the route's MTU", change(big, func(f *frame) { f.size = 1000 - 28 - 20 }), 0)
	slow("longer than the route's MTU", change(big, func(f *frame) { f.size = 1001 - 28 - 20; f.offset = 0x4000 }), 0)
	fast("as long as the link's MTU", change(b.plain(0, "2001:db8:6400::9"), func(f *frame) { f.size = 1500 - 48 - 20 }), 0)
	for _, source := range []string{"127.0.0.5", "224.0.0.1", "0.0.0.0", "255.255.255.255", "10.2.0.1", "10.1.0.1", "ff02::1", "::1", "::", "fe80::5"} {
		dest := "100.64.0.9"
		if netip.MustParseAddr(source).Is6() {
			dest = "2001:db8:6400::9"
		}
		slow("source", change(b.plain(0, dest), func(f *frame) { f.source = netip.MustParseAddr(source) }), 0)
	}
	for _, source := range []string{"100.64.1.1", "198.51.100.1", "10.2.0.2", "10.1.0.77"} {
		all = append(all, shot{name: "source", by: 0, frame: change(b.plain(0, "100.64.0.9"), func(f *frame) { f.source = netip.MustParseAddr(source) }), fast: !filtered})
	}
	for i := range 60 {
		f := b.plain(0, "100.65.1.1")
		f.source = netip.AddrFrom4([4]byte{10, 1, 0, 2})
		f.dest = netip.AddrFrom4([4]byte{100, 65, byte(i), byte(7 * i)})
		all = append(all, shot{frame: f, name: "several ways", by: 0, fast: true, split: true},
			shot{frame: b.plain(0, netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0x65, 0, 15: byte(i)}).String()), name: "several ways", by: 0, fast: true, split: true})
	}
	return append(all, b.tagged()...)
}

const hopByHop = 255 // stands for 0, which means UDP elsewhere

// tagged returns cases with VLANs.
func (b *Bench) tagged() (all []shot) {
	if !b.VLANs {
		return nil
	}
	for by, in := range b.links {
		for _, dest := range []string{"100.64.0.9", "100.70.1.1", "100.71.1.1", "100.72.1.1", "10.20.0.2", "2001:db8:6400::9", "2001:db8:7000::1", "2001:db8:7100::1", "2001:db8:7200::1"} {
			f := b.plain(by, dest)
			kernel := simulate.New(b.state).Ways(f.dest)
			s := shot{frame: f, name: "by tags", by: by, fast: kernel[0].Link != in.index, slow: kernel[0].Link == in.index}
			all = append(all, s)
			s.pcp = 5
			if in.vlan != 0 {
				all = append(all, s)
			}
			s.vlan, s.pcp, s.fast, s.slow, s.name = 99, 0, false, true, "a tag of nobody's"
			all = append(all, s)
			s.vlan, s.pcp, s.slow, s.name = 0, 3, false, "a priority alone"
			all = append(all, s)
		}
	}
	return all
}

// random returns frames with random errors.
func (b *Bench) random(r *rand.Rand, n int) (all []shot) {
	var at []netip.Addr
	for a := range simulate.Boundaries(simulate.Prefixes(b.state)) {
		if !a.IsLinkLocalUnicast() { // their routes follow the addresses of the kernel
			at = append(at, a)
		}
	}
	slices.SortFunc(at, netip.Addr.Compare)
	fib := simulate.New(b.state)
	for range n {
		dest := at[r.IntN(len(at))]
		by := r.IntN(len(b.links))
		f := b.plain(by, dest.String())
		s := shot{name: "random", by: by, split: len(fib.Ways(dest)) > 1}
		f.ttl = []uint8{0, 1, 2, 64, 255, uint8(r.Uint32())}[r.IntN(6)]
		f.tos, f.size = uint8(r.Uint32()), r.IntN(200)
		if r.IntN(6) == 0 {
			f.source, s.name = at[r.IntN(len(at))], "source"
			if f.source.Is4() != dest.Is4() {
				f.source = b.links[by].host(3, dest.Is6())
			}
		}
		switch r.IntN(12) {
		case 0:
			f.badSum = true
		case 1:
			f.length = r.IntN(9) - 4
		case 2:
			f.padding = r.IntN(20)
		case 3:
			f.to = state.MAC{2, 0, byte(r.Uint32())}
		case 4:
			f.offset = uint16(r.Uint32()) & 0x7fff
		case 5:
			if dest.Is4() {
				f.options = make([]byte, 4*(1+r.IntN(3)))
			}
		}
		s.frame = f
		all = append(all, s)
	}
	return all
}
