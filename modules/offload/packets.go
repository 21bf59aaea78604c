// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"

	"weir/kernel/routing"
	"weir/modules/offload/simulate"
	"weir/modules/offload/state"
)

// Packet is a counter-example: a test frame and the difference.
type Packet struct {
	To    netip.Addr
	By    string // link
	Frame string // in hexadecimal
	Wrong string
}

// like reports whether another packet shows the same difference.
func (p Packet) like(other Packet) bool {
	return p.To == other.To && p.By == other.By && p.Wrong == other.Wrong
}

func (p Packet) String() string {
	return fmt.Sprintf("packet to %s by %s: %s\nframe %s", p.To, p.By, p.Wrong, p.Frame)
}

// packets runs the attached programs on frames and compares the results with the kernel's own
// answer.
func (o Verification) packets(l *look, v *Verdict) error {
	if l.pinned == nil {
		return nil // filters have no program to run
	}
	asker, err := routing.Ask(o.Namespace)
	if err != nil {
		return err
	}
	defer asker.Close()
	inputs, err := l.inputs(o.Treatment)
	if err != nil || len(inputs) == 0 {
		return err
	}
	defer func() {
		for _, in := range inputs {
			_ = in.program.Close()
		}
	}()
	r := rand.New(rand.NewPCG(o.Seed, 1))
	prefixes := slices.Collect(simulate.Prefixes(l.state))
	for range o.Packets {
		to := anywhere(r)
		if len(prefixes) > 0 && r.IntN(4) > 0 {
			p := prefixes[r.IntN(len(prefixes))]
			to = []netip.Addr{p.Addr(), simulate.Last(p)}[r.IntN(2)]
		}
		in := inputs[r.IntN(len(inputs))]
		source, known := in.sources[to.Is6()]
		if !known {
			continue
		}
		wrong, sent, err := l.try(asker, in, source, to)
		if err != nil {
			return err
		}
		v.Packets++
		if sent {
			v.Sent++
		}
		if wrong.Wrong != "" && len(v.Wrong) < maxDifferences && !slices.ContainsFunc(v.Wrong, wrong.like) {
			v.Wrong = append(v.Wrong, wrong)
		}
	}
	return nil
}

// input is a link with offloaded packets.
type input struct {
	link    state.Link
	port    int
	program *ebpf.Program
	sources map[bool]netip.Addr // by family: a neighbour
}

func (l *look) inputs(t *Treatment) (all []input, err error) {
	for _, name := range t.From {
		link, known := l.state.Find(name)
		if !known {
			continue
		}
		in := input{link: link, port: link.Index, sources: map[bool]netip.Addr{}}
		if link.Kind == "vlan" {
			in.port = link.Parent
		}
		for at, n := range l.state.Neighbors {
			if at.Link == link.Index && n.Valid && !at.At.IsLinkLocalUnicast() {
				in.sources[at.At.Is6()] = at.At
			}
		}
		if in.program, err = l.pinned.Program(in.port); err != nil {
			return all, err
		}
		all = append(all, in)
	}
	return all, nil
}

// try runs the program on one packet.
func (l *look) try(asker *routing.Asker, in input, source, to netip.Addr) (p Packet, sent bool, err error) {
	frame := ping(in.link, source, to, 64)
	out := make([]byte, len(frame)+64)
	options := ebpf.RunOptions{Data: frame, DataOut: out}
	action, err := in.program.Run(&options)
	if err != nil {
		return p, false, fmt.Errorf("run the fast path's program: %w", err)
	}
	const xdpPass, xdpTX, xdpRedirect = 2, 3, 4
	p = Packet{To: to, By: in.link.Name, Frame: hex.EncodeToString(frame)}
	closed := l.fib.Enters(in.link, to.Is6())
	ways := l.expect(to, l.fib.Ways(to))
	if closed != "" {
		ways = nil
	}
	var want []simulate.Way
	for _, w := range ways {
		if w.Link != in.link.Index { // the kernel gets the other case: see comes_by
			want = append(want, w)
		}
	}
	switch {
	case action == xdpPass && (len(want) < len(ways) || want == nil || l.partly && l.pinned.Hops(to) == nil):
		return p, false, nil
	case action == xdpPass:
		p.Wrong = "the program leaves it to the kernel, which forwards it without further work"
	case action != xdpTX && action != xdpRedirect:
		p.Wrong = fmt.Sprintf("the program ends with %d", action)
	case closed != "":
		p.Wrong = "the program forwards it, although " + closed
	case want == nil:
		p.Wrong = "the program forwards it, but the kernel does not simply forward it"
	default:
		p.Wrong = l.compare(asker, options.DataOut, source, to, ways, want)
	}
	return p, action != xdpPass, nil
}

// compare returns the difference for a forwarded frame; "" for none. It must match one of want, the
// possible results of the kernel.
func (l *look) compare(asker *routing.Asker, got []byte, source, to netip.Addr, ways, want []simulate.Way) string {
	hop, sends, err := asker.Hop(to)
	if err != nil || !sends {
		return fmt.Sprintf("the kernel has no route for it (%v)", err)
	}
	if !slices.ContainsFunc(ways, func(w simulate.Way) bool { return w.Link == hop.Link }) {
		return fmt.Sprintf("the kernel sends it by link %d", hop.Link)
	}
	for _, w := range want {
		out := l.state.Links[w.Link]
		expected := ping(out, source, to, 63)
		copy(expected, w.Dst[:])
		copy(expected[6:], w.Src[:])
		if bytes.Equal(got, expected) {
			return ""
		}
	}
	return "the program sends " + hex.EncodeToString(got)
}

// ping returns a frame that arrives or leaves by a link.
func ping(l state.Link, source, to netip.Addr, ttl byte) []byte {
	const unassigned = 150 // a protocol without special treatment
	order := binary.BigEndian
	b := append(append([]byte{}, l.MAC[:]...), 2, 0, 0, 0, 0, 1)
	if l.Kind == "vlan" {
		b = order.AppendUint16(order.AppendUint16(b, 0x8100), uint16(l.VLAN))
	}
	payload := []byte("weir offload verify")
	if to.Is6() {
		h := make([]byte, 40)
		h[0], h[6], h[7] = 0x60, unassigned, ttl
		order.PutUint16(h[4:], uint16(len(payload)))
		copy(h[8:], source.AsSlice())
		copy(h[24:], to.AsSlice())
		return append(append(order.AppendUint16(b, 0x86dd), h...), payload...)
	}
	h := make([]byte, 20)
	h[0], h[8], h[9] = 0x45, ttl, unassigned
	order.PutUint16(h[2:], uint16(20+len(payload)))
	copy(h[12:], source.AsSlice())
	copy(h[16:], to.AsSlice())
	sum := uint32(0)
	for i := 0; i < len(h); i += 2 {
		sum += uint32(order.Uint16(h[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	order.PutUint16(h[10:], ^uint16(sum))
	return append(append(order.AppendUint16(b, 0x0800), h...), payload...)
}
