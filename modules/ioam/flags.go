// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"fmt"
	"math"
	"net/netip"

	"weir/internal/yamlfile"
	"weir/modules/ioam/codec"
	"weir/modules/ioam/node"
)

const (
	// defaultShare is the N of RFC 9322 section 4.1.1, which recommends more than minShare.
	defaultShare = 200
	minShare     = 100
)

// readFlags validates the keys for the flags Loopback and Active.
func readFlags(d draft, fields yamlfile.Fields, keys *NodeKeys, n *node.Node) {
	n.FlagShare = uint32(keys.FlagShare.or(defaultShare))
	if share := keys.FlagShare.or(defaultShare); share < 2 || share > math.MaxUint32 {
		d.ComplainAt(fields.At("flag_share"), "", "ioam.flag_share: %d is no part of an interface: give more than 100, at least 2", share)
	}
	if keys.Address == "" {
		return
	}
	address, err := addressOf(keys.Address)
	if err != nil {
		d.ComplainAt(fields.At("address"), "", "ioam.address: %v", err)
		return
	}
	n.Address = address
}

// addressOf parses a global unicast IPv6 address.
func addressOf(text string) (netip.Addr, error) {
	address, err := netip.ParseAddr(text)
	if err != nil || !address.Is6() || address.Is4In6() || address.Zone() != "" || !address.IsGlobalUnicast() {
		return address, fmt.Errorf("%q is no global unicast IPv6 address: write it as 2001:db8::1", text)
	}
	return address, nil
}

// flags returns the flags of a scope's traces.
func (k *EncapsulationKeys) flags(options []node.Option, namespaces map[uint16]node.Namespace) (flags codec.Flags, err error) {
	traces := 0
	for _, o := range options {
		if o.Type == codec.PreallocatedTrace {
			traces++
		}
	}
	if k.Active {
		if traces == 0 {
			return 0, fmt.Errorf("active: it is a flag of traces: add trace")
		}
		flags |= codec.Active
	}
	if !k.Loopback {
		return flags, nil
	}
	if len(options) != 1 || traces != 1 || options[0].Fields != codec.HopLimitNode {
		return 0, fmt.Errorf("loopback: nodes send back packets with trace: [node] and nothing else (RFC 9322 section 4.1)")
	}
	if !namespaces[options[0].Namespace].Loopback {
		return 0, fmt.Errorf("loopback: namespace %d has no loopback, so this node would not recognize returning packets: set loopback: true there", options[0].Namespace)
	}
	return flags | codec.Loopback, nil
}
