// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// Conditions restricts the encapsulated packets of a scope, beyond its selector. The zero value has
// no restriction.
type Conditions struct {
	Protocol uint8  `json:"protocol,omitempty"` // 0 for all
	Port     uint16 `json:"port,omitempty"`     // of either end; 0 for all
	// Source is an IPv6 prefix, masked; the zero value matches all. With the scope's prefix, the
	// protocol and both ports it can match a single flow.
	Source          netip.Prefix `json:"source,omitzero"`
	SourcePort      uint16       `json:"source_port,omitempty"`      // 0 for all
	DestinationPort uint16       `json:"destination_port,omitempty"` // 0 for all
	DSCP            *uint8       `json:"dscp,omitempty"`
}

type conditionKeys struct {
	Protocol        string  `yaml:"protocol" doc:"Only packets of this protocol: tcp, udp, icmp or a number."`
	Port            *number `yaml:"port" doc:"Only TCP and UDP with this port at either end."`
	Source          string  `yaml:"source" doc:"Only packets from this IPv6 prefix or address."`
	SourcePort      *number `yaml:"source_port" doc:"Only TCP and UDP from this port."`
	DestinationPort *number `yaml:"destination_port" doc:"Only TCP and UDP to this port."`
	DSCP            *number `yaml:"dscp" doc:"Only packets with this DSCP, 0 to 63."`
}

const (
	tcp = 6
	udp = 17
)

// conditions checks the keys.
func (k *conditionKeys) conditions() (c Conditions, err error) {
	if c.Protocol, err = protocolOf(k.Protocol); err != nil {
		return c, err
	}
	if c.Source, err = sourceOf(k.Source); err != nil {
		return c, err
	}
	for _, p := range []struct {
		name string
		text *number
		port *uint16
	}{{"port", k.Port, &c.Port}, {"source_port", k.SourcePort, &c.SourcePort}, {"destination_port", k.DestinationPort, &c.DestinationPort}} {
		if p.text == nil {
			continue
		}
		if *p.text < 1 || *p.text > 65535 {
			return c, fmt.Errorf("%s: %d is no port: give 1 to 65535", p.name, *p.text)
		}
		if c.Protocol != 0 && c.Protocol != tcp && c.Protocol != udp {
			return c, fmt.Errorf("%s: packets of protocol %s have no ports: give protocol: tcp or udp, or leave the port out", p.name, k.Protocol)
		}
		*p.port = uint16(*p.text)
	}
	if c.Port != 0 && (c.SourcePort != 0 || c.DestinationPort != 0) {
		return c, fmt.Errorf("port: it is that of either end: give it alone, or source_port and destination_port")
	}
	if k.DSCP.or(0) > 63 {
		return c, fmt.Errorf("dscp: %d is no DSCP: give 0 to 63", *k.DSCP)
	}
	if k.DSCP != nil {
		dscp := uint8(*k.DSCP)
		c.DSCP = &dscp
	}
	return c, nil
}

func protocolOf(word string) (uint8, error) {
	if n, named := map[string]uint8{"": 0, "tcp": tcp, "udp": udp, "icmp": 58}[word]; named {
		return n, nil
	}
	n, err := strconv.ParseUint(word, 0, 8)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("protocol: %q is neither tcp, udp, icmp nor a number up to 255", word)
	}
	return uint8(n), nil
}

// sourceOf reads a prefix or an address; "" is any source.
func sourceOf(text string) (netip.Prefix, error) {
	if text == "" {
		return netip.Prefix{}, nil
	}
	prefix, err := netip.ParsePrefix(text)
	if address, single := netip.ParseAddr(text); single == nil && address.Zone() == "" {
		prefix, err = netip.PrefixFrom(address, address.BitLen()), nil
	}
	switch {
	case err != nil:
		return prefix, fmt.Errorf("source: %q is not a prefix: write it as \"2001:db8:1::/48\" or \"2001:db8::1\"", text)
	case prefix.Addr().Is4() || prefix.Addr().Is4In6():
		return prefix, fmt.Errorf("source: %s is of IPv4, which has no IOAM: give an IPv6 prefix, or leave it out", text)
	case prefix != prefix.Masked():
		return prefix, fmt.Errorf("source: %s has bits beyond its length: write %s", text, prefix.Masked())
	}
	return prefix, nil
}

// ofFlow reports whether source or ports are restricted.
func (c *Conditions) ofFlow() bool {
	return c.Source.IsValid() || c.SourcePort != 0 || c.DestinationPort != 0
}

// entry encodes the conditions for the programs.
func (c *Conditions) entry() ioamIoamScope {
	s := ioamIoamScope{Protocol: uint32(c.Protocol), Port: uint32(c.Port), SourcePort: c.SourcePort, DestinationPort: c.DestinationPort}
	if c.DSCP != nil {
		s.Dscp = uint32(*c.DSCP) | 64
	}
	if c.ofFlow() {
		s.Flow = 1
	}
	if c.Source.IsValid() {
		s.Source = longs(c.Source.Addr())
		mask := net.CIDRMask(c.Source.Bits(), 128)
		s.SourceMask = [2]uint64{binary.NativeEndian.Uint64(mask), binary.NativeEndian.Uint64(mask[8:])}
	}
	return s
}

// words describes the conditions for a summary.
func (c *Conditions) words() (all []string) {
	if c.Source.IsValid() {
		all = append(all, "from "+c.Source.String())
	}
	for _, n := range []struct {
		name string
		is   uint32
	}{{"protocol", uint32(c.Protocol)}, {"port", uint32(c.Port)}, {"source port", uint32(c.SourcePort)}, {"destination port", uint32(c.DestinationPort)}} {
		if n.is != 0 {
			all = append(all, fmt.Sprintf("%s %d", n.name, n.is))
		}
	}
	if c.DSCP != nil {
		all = append(all, fmt.Sprintf("DSCP %d", *c.DSCP))
	}
	return all
}
