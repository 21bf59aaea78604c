// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"fmt"
	"net/netip"
	"strconv"

	"weir/modules/ioam/node"
)

type conditionKeys struct {
	Protocol        string  `yaml:"protocol" doc:"Only packets of this protocol: tcp, udp, icmp or a number."`
	Port            *number `yaml:"port" doc:"Only TCP and UDP packets from or to this port."`
	Source          string  `yaml:"source" doc:"Only packets from this IPv6 prefix or address."`
	SourcePort      *number `yaml:"source_port" doc:"Only TCP and UDP packets from this port."`
	DestinationPort *number `yaml:"destination_port" doc:"Only TCP and UDP packets to this port."`
	DSCP            *number `yaml:"dscp" doc:"Only packets with this DSCP, 0 to 63."`
}

const (
	tcp = 6
	udp = 17
)

// conditions validates the keys.
func (k *conditionKeys) conditions() (c node.Conditions, err error) {
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

// sourceOf parses a prefix or an address; "" is any source.
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
