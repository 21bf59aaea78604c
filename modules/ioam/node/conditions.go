// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
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

// ofFlow reports whether source or ports are restricted.
func (c *Conditions) OfFlow() bool {
	return c.Source.IsValid() || c.SourcePort != 0 || c.DestinationPort != 0
}

// entry encodes the conditions for the programs.
func (c *Conditions) entry() ioamIoamScope {
	s := ioamIoamScope{Protocol: uint32(c.Protocol), Port: uint32(c.Port), SourcePort: c.SourcePort, DestinationPort: c.DestinationPort}
	if c.DSCP != nil {
		s.Dscp = uint32(*c.DSCP) | 64
	}
	if c.OfFlow() {
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
