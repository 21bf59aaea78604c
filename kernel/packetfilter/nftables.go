// SPDX-License-Identifier: Apache-2.0

package packetfilter

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Families of netfilter (linux/netfilter.h).
const (
	familyInet   = 1
	familyIPv4   = 2
	familyNetdev = 5
	familyIPv6   = 10
)

// Hooks of the families for IP, and of netdev.
const (
	preRouting = 0
	localIn    = 1
	localOut   = 3
	ingressIP  = 5 // of inet, at a device

	netdevIngress = 0
	netdevEgress  = 1
)

// Attributes of chains (linux/netfilter/nf_tables.h).
const (
	chainTable  = 1
	chainName   = 3
	chainHook   = 4
	chainPolicy = 5
	chainUse    = 6
	chainType   = 7

	hookNumber  = 1
	hookDevice  = 3
	hookDevices = 4

	policyAccept = 1
)

// chain is a chain of nftables.
type chain struct {
	family  byte
	table   string
	name    string
	sort    string // filter, nat, route
	base    bool
	hook    uint32
	devices []string
	policy  uint32
	rules   uint32
}

// nftables lists base chains in the path of forwarded packets, with rules or a drop policy. It
// includes those of iptables-nft.
func nftables() (all []Filter, err error) {
	const get, answer = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETCHAIN, unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWCHAIN
	messages, err := request(unix.NETLINK_NETFILTER, get, unix.NLM_F_DUMP, answer, make([]byte, 4))
	if err != nil {
		return nil, fmt.Errorf("list nftables chains: %w", err)
	}
	for _, m := range messages {
		if c := chainOf(m); c.decides() {
			all = append(all, c.filters()...)
		}
	}
	return all, nil
}

func chainOf(message []byte) (c chain) {
	if len(message) < 4 {
		return c
	}
	c.family, c.policy = message[0], policyAccept
	attributes(message[4:], func(kind uint16, value []byte) {
		switch kind {
		case chainTable:
			c.table = text(value)
		case chainName:
			c.name = text(value)
		case chainType:
			c.sort = text(value)
		case chainHook:
			c.base = true
			attributes(value, c.place)
		case chainPolicy:
			c.policy = number(value)
		case chainUse:
			c.rules = number(value)
		}
	})
	return c
}

func number(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return network.Uint32(b)
}

func (c *chain) place(kind uint16, value []byte) {
	switch kind {
	case hookNumber:
		c.hook = number(value)
	case hookDevice:
		c.devices = append(c.devices, text(value))
	case hookDevices:
		attributes(value, func(_ uint16, value []byte) { c.devices = append(c.devices, text(value)) })
	}
}

func (c *chain) decides() bool {
	if !c.base || c.rules == 0 && c.policy == policyAccept {
		return false
	}
	switch c.family {
	case familyInet, familyIPv4, familyIPv6:
		return c.hook != localIn && c.hook != localOut
	}
	return c.family == familyNetdev
}

var families = map[byte]string{familyInet: "inet", familyIPv4: "ip", familyNetdev: "netdev", familyIPv6: "ip6"}

func (c *chain) filters() (all []Filter) {
	policy := ""
	if c.policy != policyAccept {
		policy = ", policy drop"
	}
	f := Filter{Name: fmt.Sprintf("nftables chain %s %s %s (%s, %d rules%s)", families[c.family], c.table, c.name, c.sort, c.rules, policy),
		IPv4: c.family != familyIPv6, IPv6: c.family != familyIPv4, Egress: c.family == familyNetdev && c.hook == netdevEgress}
	if c.family != familyNetdev && c.hook != ingressIP {
		return []Filter{f}
	}
	slices.Sort(c.devices)
	for _, f.Device = range slices.Compact(c.devices) { // a chain without a device has no packets
		all = append(all, f)
	}
	return all
}
