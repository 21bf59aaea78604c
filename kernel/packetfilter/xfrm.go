// SPDX-License-Identifier: Apache-2.0

package packetfilter

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Messages about IPsec policies (linux/xfrm.h).
const (
	xfrmNewPolicy  = 0x13
	xfrmGetPolicy  = 0x15
	xfrmGetDefault = 0x28

	directionIn      = 0
	directionForward = 2
	block            = 1
)

// Offsets in xfrm_userpolicy_info.
const (
	selectorFamily = 40
	selectorLength = 42 // of the destination
	policyOf       = 160
	policyAction   = 161
	policySize     = 168
	identitySize   = 64 // of xfrm_userpolicy_id
)

// xfrm lists IPsec policies for forwarded packets, and a default that blocks them.
func xfrm() (all []Filter, err error) {
	messages, err := request(unix.NETLINK_XFRM, xfrmGetPolicy, unix.NLM_F_DUMP, xfrmNewPolicy, make([]byte, identitySize))
	if err != nil {
		return nil, fmt.Errorf("list IPsec policies: %w", err)
	}
	for _, m := range messages {
		if f, forwarded := policy(m); forwarded {
			all = append(all, f)
		}
	}
	defaults, err := request(unix.NETLINK_XFRM, xfrmGetDefault, 0, xfrmGetDefault, make([]byte, 4))
	if err != nil {
		return nil, fmt.Errorf("read the default IPsec policy: %w", err)
	}
	for _, m := range defaults { // in, forward, out
		if len(m) >= 3 && (m[1] == block || m[2] == block) {
			all = append(all, Filter{Name: "IPsec default policy (ip xfrm policy getdefault)", IPv4: true, IPv6: true})
		}
	}
	return all, nil
}

// policy returns a policy as a filter of its destinations.
func policy(m []byte) (f Filter, forwarded bool) {
	if len(m) < policySize || m[policyOf] == directionIn || m[policyOf] > directionForward {
		return f, false // others belong to one socket
	}
	size := 4
	f.IPv4, f.IPv6 = true, false
	if native.Uint16(m[selectorFamily:]) == unix.AF_INET6 {
		size, f.IPv4, f.IPv6 = 16, false, true
	}
	from, _ := netip.AddrFromSlice(m[16 : 16+size])
	to, _ := netip.AddrFromSlice(m[:size])
	f.To = netip.PrefixFrom(to, int(m[selectorLength])).Masked()
	source := netip.PrefixFrom(from, int(m[selectorLength+1])).Masked()
	words := []string{"in", "out", "fwd"}
	action := "allow"
	if m[policyAction] == block {
		action = "block"
	}
	f.Name = fmt.Sprintf("IPsec policy src %s dst %s dir %s action %s", source, f.To, words[m[policyOf]], action)
	return f, true
}
