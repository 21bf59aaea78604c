// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"encoding/binary"
	"net"
	"net/netip"
)

// Rewrite lists the changes of every frame. The zero value changes nothing.
type Rewrite struct {
	Source, Destination net.HardwareAddr          // nil keeps the capture's
	Addresses           map[netip.Addr]netip.Addr // old to new, of one family each, for sources and destinations
}

// Apply changes a frame in place and returns the number of replaced addresses. Correct checksums
// stay correct, and wrong ones wrong (RFC 1624): those of the IPv4 header, TCP, UDP and ICMPv6. In
// IPv6 packets with extension headers addresses are not replaced, because the transport header is
// not located.
func (w Rewrite) Apply(octets []byte) (replaced int) {
	if w.Destination != nil {
		copy(octets, w.Destination)
	}
	if w.Source != nil {
		copy(octets[6:], w.Source)
	}
	p, ok := parse(octets)
	if !ok || len(w.Addresses) == 0 || !p.four && p.extended() {
		return 0
	}
	size := len(p.addresses) / 2
	for at := 0; at < 2*size; at += size {
		was, _ := netip.AddrFromSlice(p.addresses[at : at+size])
		to, found := w.Addresses[was]
		if !found || to.Is4() != was.Is4() {
			continue
		}
		replaced++
		p.replace(p.addresses[at:at+size], to.AsSlice())
	}
	return replaced
}

// extended reports whether an extension header stands between the IPv6 header and the transport's.
func (p *packet) extended() bool {
	switch p.protocol {
	case 0, 43, 44, 50, 51, 60, 135, 139, 140:
		return true
	}
	return false
}

func (p *packet) replace(address, to []byte) {
	if p.four {
		update(p.octets[10:12], address, to)
	}
	if check := p.check(); check != nil {
		zero := p.protocol == 17 && check[0]|check[1] == 0 // none (RFC 768)
		if !zero || !p.four {
			update(check, address, to)
			if p.protocol == 17 && check[0]|check[1] == 0 {
				check[0], check[1] = 0xff, 0xff
			}
		}
	}
	copy(address, to)
}

// check returns the transport checksum that covers the addresses; nil without one.
func (p *packet) check() []byte {
	at := map[byte]int{6: 16, 17: 6}[p.protocol]
	if p.protocol == 58 && !p.four {
		at = 2
	}
	if at == 0 || len(p.transport) < at+2 {
		return nil
	}
	return p.transport[at : at+2]
}

// update applies equation 3 of RFC 1624: HC' = ~(~HC + ~m + m').
func update(check, was, is []byte) {
	sum := uint32(^binary.BigEndian.Uint16(check))
	for i := 0; i < len(was); i += 2 {
		sum += uint32(^binary.BigEndian.Uint16(was[i:])) + uint32(binary.BigEndian.Uint16(is[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(check, ^uint16(sum))
}
