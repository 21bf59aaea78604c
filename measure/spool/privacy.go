// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"bytes"
	"encoding/json"
	"net/netip"

	"weir/internal/fault"
)

// Privacy changes the addresses of clients in records before they reach the disk. The zero value
// keeps them.
type Privacy struct {
	// Prefix4 and Prefix6 are the leading bits kept of a client's address; the others become 0. 0
	// keeps all bits. M-Lab's own option is 24 and 64.
	Prefix4, Prefix6 int
	// NoAddress replaces the client's address by 0.0.0.0 or ::.
	NoAddress bool
}

func (p Privacy) check() error {
	if p.Prefix4 < 0 || p.Prefix4 > 32 || p.Prefix6 < 0 || p.Prefix6 > 128 {
		return fault.New(fault.Usage, "write a length from 0 to 32 for IPv4 and from 0 to 128 for IPv6, as in 24 and 64",
			"prefix lengths %d and %d of client addresses are not valid", p.Prefix4, p.Prefix6)
	}
	return nil
}

// active reports whether any address changes.
func (p Privacy) active() bool { return p != Privacy{} }

// clientKeys are the members with the client's own address, in every datatype.
var clientKeys = map[string]bool{"Client": true, "ClientIP": true, "dst": true}

// serverKeys are the members with the server's address, which is public even in the client's block.
var serverKeys = map[string]bool{"Server": true, "ServerIP": true, "src": true}

// apply returns a JSON record with the addresses of its client truncated: the whole-string
// addresses of the members in clientKeys, and everywhere those in the client's block, such as the
// hops of a traceroute. The host name that follows such an address is removed, and networks are no
// smaller than the client's block.
func (p Privacy) apply(text []byte) []byte {
	if !p.active() {
		return text
	}
	var blocks []netip.Prefix
	scan(text, func(key string, start, end int) {
		if h, is := parseHost(unquote(text[start:end])); is && clientKeys[key] {
			blocks = append(blocks, p.block(h.address))
		}
	})
	var out bytes.Buffer
	out.Grow(len(text))
	written := 0
	hidden := false // the last address was in the client's block
	scan(text, func(key string, start, end int) {
		plain := unquote(text[start:end])
		var replacement string
		h, is := parseHost(plain)
		switch network, err := netip.ParsePrefix(plain); {
		case is && (clientKeys[key] || contains(blocks, h.address) && !serverKeys[key]):
			hidden = true
			h.address = p.truncate(h.address)
			replacement = h.String()
		case is:
			hidden = false
			return
		case err == nil && network.Bits() > p.block(network.Addr()).Bits():
			replacement = p.block(network.Addr()).String()
		case key == "name" && hidden:
			hidden = false
		default:
			return
		}
		out.Write(text[written:start])
		quoted, _ := json.Marshal(replacement)
		out.Write(quoted)
		written = end
	})
	out.Write(text[written:])
	return out.Bytes()
}

// block returns the addresses that identify the client as well as its own does.
func (p Privacy) block(a netip.Addr) netip.Prefix {
	bits := p.bits(a)
	if p.NoAddress && bits == a.BitLen() {
		bits = a.BitLen() * 3 / 4 // /24
		if a.Is6() {
			bits = 64
		}
	}
	block, _ := a.Prefix(bits)
	return block
}

func (p Privacy) bits(a netip.Addr) int {
	bits := p.Prefix6
	if a.Is4() {
		bits = p.Prefix4
	}
	if bits == 0 {
		return a.BitLen()
	}
	return bits
}

func (p Privacy) truncate(a netip.Addr) netip.Addr {
	switch {
	case p.NoAddress && a.Is4():
		return netip.IPv4Unspecified()
	case p.NoAddress:
		return netip.IPv6Unspecified()
	}
	block, _ := a.Prefix(p.bits(a))
	return block.Addr()
}

func contains(blocks []netip.Prefix, a netip.Addr) bool {
	for _, b := range blocks {
		if b.Contains(a) {
			return true
		}
	}
	return false
}

// host is a text that is an address, with a port or without.
type host struct {
	address netip.Addr
	port    int // -1 if there is none
}

func (h host) String() string {
	if h.port < 0 {
		return h.address.String()
	}
	return netip.AddrPortFrom(h.address, uint16(h.port)).String()
}

// parseHost reads "ADDRESS", "ADDRESS:PORT" or "[ADDRESS]:PORT", without the zone.
func parseHost(s string) (host, bool) {
	if len(s) < 2 || len(s) > 64 {
		return host{}, false
	}
	if a, err := netip.ParseAddr(s); err == nil {
		return host{a.Unmap().WithZone(""), -1}, true
	}
	if a, err := netip.ParseAddrPort(s); err == nil {
		return host{a.Addr().Unmap().WithZone(""), int(a.Port())}, true
	}
	return host{}, false
}
