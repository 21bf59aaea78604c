// SPDX-License-Identifier: Apache-2.0

package plan

import "net/netip"

// Decision is the number of a treatment of packets. 0 is the CPU.
type Decision int32

// CPU leaves a packet to the kernel.
const CPU Decision = 0

// none marks a node without a decision.
const none Decision = -1

// lowest is the layer of addresses without a route.
const lowest = 255

// node is one prefix. Its decision is used unless a shorter prefix has one of a layer above.
type node struct {
	child [2]uint32 // 0 for none
	own   Decision
	layer uint8
	mark  bool // it and longer prefixes may be offloaded
	host  bool // a neighbour has its address
	// chosen reports that the budget includes its route or neighbour.
	chosen bool
}

func (n *node) empty() bool {
	return n.child == [2]uint32{} && n.own == none && !n.mark && !n.host
}

// trie holds the prefixes of one family. Node 1 is the root.
type trie struct {
	nodes []node
	free  []uint32
	sets  []int32 // for aggregation, beside nodes
	ipv6  bool
}

func newTrie(ipv6 bool) *trie {
	return &trie{nodes: []node{{}, {own: none}}, ipv6: ipv6}
}

// bits returns the length of the family's addresses.
func (t *trie) bits() int {
	if t.ipv6 {
		return 128
	}
	return 32
}

// key holds an address's bytes; IPv4 has the first ones.
type key [16]byte

func keyOf(a netip.Addr) (k key) {
	if a.Is4() {
		four := a.As4()
		copy(k[:], four[:])
		return k
	}
	return a.As16()
}

func (k key) bit(i int) int { return int(k[i>>3]>>(7-i&7)) & 1 }

func (k *key) set(i, bit int) {
	mask := byte(1) << (7 - i&7)
	k[i>>3] &^= mask
	if bit != 0 {
		k[i>>3] |= mask
	}
}

func (t *trie) prefix(k key, length int) netip.Prefix {
	if t.ipv6 {
		return netip.PrefixFrom(netip.AddrFrom16(k), length)
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte(k[:4])), length)
}

// at returns the node of a prefix, created on demand; 0 without one.
func (t *trie) at(p netip.Prefix, create bool) uint32 {
	k, n := keyOf(p.Addr()), uint32(1)
	for i := range p.Bits() {
		b := k.bit(i)
		next := t.nodes[n].child[b]
		if next == 0 {
			if !create {
				return 0
			}
			next = t.add()
			t.nodes[n].child[b] = next
		}
		n = next
	}
	return n
}

func (t *trie) add() uint32 {
	if last := len(t.free) - 1; last >= 0 {
		n := t.free[last]
		t.free = t.free[:last]
		t.nodes[n] = node{own: none}
		return n
	}
	t.nodes = append(t.nodes, node{own: none})
	return uint32(len(t.nodes) - 1)
}

// change calls f on a prefix's node, and removes empty nodes afterwards.
func (t *trie) change(p netip.Prefix, f func(*node)) {
	at := t.at(p, true) // may grow the nodes
	f(&t.nodes[at])
	k := keyOf(p.Addr())
	path := make([]uint32, 1, 129)
	path[0] = 1
	for i := range p.Bits() {
		path = append(path, t.nodes[path[i]].child[k.bit(i)])
	}
	for i := len(path) - 1; i > 0 && t.nodes[path[i]].empty(); i-- {
		t.nodes[path[i-1]].child[k.bit(i-1)] = 0
		t.free = append(t.free, path[i])
	}
}

// Carry is the state of a lookup above a node.
type Carry struct {
	own    Decision
	layer  uint8
	mark   bool
	chosen bool
}

// begins reports whether a node has an effective route or a neighbour, and so is selected by
// itself.
func (n *node) begins(above Carry) bool { return n.own != none && n.layer <= above.layer || n.host }

// start returns the state above all prefixes.
func start() Carry { return Carry{own: CPU, layer: lowest} }

// through returns the state below a node.
func (c Carry) through(n *node) Carry {
	if n.begins(c) {
		c.chosen = n.chosen
	}
	if n.own != none && n.layer <= c.layer {
		c.own, c.layer = n.own, n.layer
	}
	c.mark = c.mark || n.mark
	return c
}
