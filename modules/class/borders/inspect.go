// SPDX-License-Identifier: Apache-2.0

package borders

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"weir/internal/dscp"

	"github.com/cilium/ebpf"

	"weir/core/module"
	"weir/kernel/device"
	"weir/kernel/rtnl"
)

// inspectPackets is the number of packets per border and direction.
const inspectPackets = 2000

// Inspect runs the active programs on packets with prefixes and DSCPs drawn from the seed, without
// counting, and compares the results.
func (p *hostPlane) Inspect(ctx context.Context, have module.State, seed uint64) (found []module.Inspection, err error) {
	all, err := devices()
	if err != nil {
		return nil, err
	}
	there := map[string]rtnl.Device{}
	for _, d := range all {
		there[d.Name] = d
	}
	for _, item := range have.Host {
		t, ok := item.Treatment.(*Treatment)
		if !ok || ctx.Err() != nil {
			continue
		}
		one := module.Inspection{Check: item.Name, Promise: t.Summary()}
		d, is := there[t.Device]
		switch {
		case t.Shadow:
			one.Verdict, one.Reason = module.InShadow, "it counts only"
		case !is:
			one.Verdict, one.Reason = module.CannotSay, "there is no such device"
		default:
			if err := p.inspect(&one, t, d, seed); err != nil {
				return found, fmt.Errorf("borders.%s: %w", t.Device, err)
			}
		}
		found = append(found, one)
	}
	return found, nil
}

// inspect checks one border.
func (p *hostPlane) inspect(one *module.Inspection, t *Treatment, d rtnl.Device, seed uint64) error {
	found, err := p.attached(d.Name)
	if err != nil {
		return err
	}
	defer func() {
		for _, a := range found {
			_ = a.Close()
		}
	}()
	random, packets, changed := rand.New(rand.NewPCG(seed, 0)), 0, 0
	one.Verdict = module.Holds
	for _, hook := range t.hooks() {
		a := found[hook]
		if a == nil {
			one.Verdict, one.Reason = module.Fails, fmt.Sprintf("no program is at its %s: weir apply puts it there", hook)
			return nil
		}
		program, err := ebpf.NewProgramFromID(a.Program)
		if err != nil {
			return programNeeds.Fault("open border's program", err)
		}
		for range inspectPackets {
			packet := t.draw(random, hook)
			got, err := run(program, packet, d.Header)
			if err != nil {
				_ = program.Close()
				return fmt.Errorf("run border's program: %w", err)
			}
			packets++
			want := t.decide(packet, hook)
			if want != packet.dscp {
				changed++
			}
			if got != want && len(one.Examples) < maxExamples {
				one.Examples = append(one.Examples, fmt.Sprintf("%s from %s to %s with %s became %s, not %s", hook, packet.from, packet.to, packet.dscp, got, want))
			}
		}
		_ = program.Close()
	}
	one.Looked = fmt.Sprintf("%d packets, %d of them to be changed", packets, changed)
	switch {
	case len(one.Examples) > 0:
		one.Verdict, one.Reason = module.Fails, "packets become something else"
	case d.XDP != 0:
		one.Verdict, one.Reason = module.CannotSay, "an XDP program is attached to the device; packets that it redirects bypass the border"
	}
	return nil
}

const maxExamples = 5

// drawn is a test packet for a border.
type drawn struct {
	from, to netip.Addr
	dscp     dscp.DSCP
}

// draw makes a packet that a border's prefixes and translations are about, as far as it has any for
// the hook.
func (t *Treatment) draw(random *rand.Rand, hook device.Hook) (d drawn) {
	all := append(append([]Rule(nil), t.From...), t.To...)
	prefix := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if len(all) > 0 {
		prefix = all[random.IntN(len(all))].Prefix
	} else if random.IntN(2) == 0 {
		prefix = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	other := prefix
	for range 8 { // of the same family, if there is one
		if len(all) > 0 {
			if o := all[random.IntN(len(all))].Prefix; o.Addr().Is4() == prefix.Addr().Is4() {
				other = o
				break
			}
		}
	}
	d.from, d.to = within(random, prefix), within(random, other)
	if random.IntN(2) == 0 {
		d.from, d.to = d.to, d.from
	}
	d.dscp = dscp.DSCP(random.IntN(64))
	if n := len(t.Translate); n > 0 && random.IntN(2) == 0 {
		pair := t.Translate[random.IntN(n)]
		d.dscp = pair.Beyond
		if hook == device.Egress {
			d.dscp = pair.Here
		}
	}
	return d
}

// within is any address of a prefix.
func within(random *rand.Rand, prefix netip.Prefix) netip.Addr {
	octets := prefix.Addr().AsSlice()
	for bit := prefix.Bits(); bit < len(octets)*8; bit++ {
		octets[bit/8] |= byte(random.IntN(2)) << (7 - bit%8)
	}
	address, _ := netip.AddrFromSlice(octets)
	return address
}

// decide is the DSCP that a packet is to have behind a hook.
func (t *Treatment) decide(d drawn, hook device.Hook) dscp.DSCP {
	given := d.dscp
	for _, p := range t.Translate {
		from, to := p.Beyond, p.Here
		if hook == device.Egress {
			from, to = to, from
		}
		if d.dscp == from {
			given = to
		}
	}
	if hook == device.Egress {
		return given
	}
	best := Rule{Class: keep}
	for side, address := range []netip.Addr{d.from, d.to} {
		for _, r := range [][]Rule{t.From, t.To}[side] {
			if r.Prefix.Contains(address) && r.Prefix.Bits() > best.Prefix.Bits() {
				best = r
			}
		}
	}
	if best.Class == keep {
		return given
	}
	return best.DSCP
}

// run gives a program a packet, and returns the DSCP that it has behind it.
func run(program *ebpf.Program, d drawn, header int) (dscp.DSCP, error) {
	frame := make([]byte, header, header+60)
	if d.from.Is4() {
		if header > 0 {
			frame[12], frame[13] = 0x08, 0x00
		}
		frame = append(frame, 0x45, byte(d.dscp)<<2, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0)
	} else {
		if header > 0 {
			frame[12], frame[13] = 0x86, 0xdd
		}
		frame = append(frame, 0x60|byte(d.dscp)>>2, byte(d.dscp)<<6, 0, 0, 0, 6, 17, 64)
	}
	frame = append(append(frame, d.from.AsSlice()...), d.to.AsSlice()...)
	frame = append(frame, make([]byte, 26)...)
	out := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+64)}
	if _, err := program.Run(out); err != nil {
		return 0, err
	}
	packet := out.DataOut[header:]
	if d.from.Is4() {
		return dscp.DSCP(packet[1] >> 2), nil
	}
	return dscp.DSCP((packet[0]<<4 | packet[1]>>4) >> 2), nil
}

// Judges documents the inspection.
func (Module) Judges() []module.Judged {
	return []module.Judged{{Check: "the border's name", Of: "each border", Looks: fmt.Sprintf("%d packets with random prefixes and DSCPs, in test runs of the active programs", inspectPackets),
		Holds: "each packet gets the DSCP of the policy"}}
}
