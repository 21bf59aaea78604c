// SPDX-License-Identifier: Apache-2.0

package match

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
)

// Kind is a kind of key.
type Kind string

// Kinds, and the meaning of the number of a Key.
const (
	Cgroup    Kind = "cgroup"    // id, the inode number of its directory
	User      Kind = "user"      // uid
	Interface Kind = "interface" // index
	Prefix    Kind = "prefix"    // none: the longest match of the remote address counts
	Netns     Kind = "netns"     // cookie of a network namespace, SO_NETNS_COOKIE
	Mark      Kind = "mark"      // SO_MARK
)

// Key identifies traffic. Keys from the functions below are equal if a data plane cannot
// distinguish them. The zero value matches nothing.
type Key struct {
	Kind   Kind         `json:"kind,omitempty"`
	Number uint64       `json:"number,omitempty"`
	Prefix netip.Prefix `json:"prefix,omitzero"`
}

// OfCgroup returns the key of a cgroup and its descendants, within the first MaxCgroupLevels
// levels.
func OfCgroup(id uint64) Key { return Key{Kind: Cgroup, Number: id} }

// OfUser returns the key of the sockets of a user.
func OfUser(uid uint32) Key { return Key{Kind: User, Number: uint64(uid)} }

// OfInterface returns the key of the interface with this index in the network namespace of Prepare.
// If the kernel does not report the namespace of a packet (cgroup_skb before Linux 6.15), the same
// index in another namespace matches too.
func OfInterface(index int) Key { return Key{Kind: Interface, Number: uint64(index)} }

// OfPrefix returns the key of a remote prefix. An IPv4-mapped one is converted to IPv4.
func OfPrefix(prefix netip.Prefix) Key {
	if address := prefix.Addr(); address.Is4In6() && prefix.Bits() >= mappedBits {
		prefix = netip.PrefixFrom(address.Unmap(), prefix.Bits()-mappedBits)
	}
	return Key{Kind: Prefix, Prefix: prefix.Masked()}
}

// OfNetns returns the key of the sockets of the network namespace with this cookie.
func OfNetns(cookie uint64) Key { return Key{Kind: Netns, Number: cookie} }

// OfMark returns the key of the sockets with this mark.
func OfMark(mark uint32) Key { return Key{Kind: Mark, Number: uint64(mark)} }

// String describes the key.
func (k Key) String() string {
	if kind, known := kinds[k.Kind]; known {
		return kind.words(k)
	}
	return fmt.Sprintf("unknown kind %q", k.Kind)
}

// check returns an error for a key that no packet can have.
func (k Key) check() error {
	kind, known := kinds[k.Kind]
	switch {
	case !known:
		return fmt.Errorf("traffic cannot be matched by %q", k.Kind)
	case k.Kind == Prefix && !k.Prefix.IsValid():
		return fmt.Errorf("the prefix is not valid")
	case kind.narrow && k.Number > math.MaxUint32:
		return fmt.Errorf("the number of the %s is above 32 bits: %d", k.Kind, k.Number)
	}
	return nil
}

// mappedBits is the prefix length of IPv4-mapped addresses.
const mappedBits = 96

// bits maps IPv4 into IPv6, so that one trie holds both.
func (k Key) bits() matchMatchPrefix {
	length := k.Prefix.Bits()
	if k.Prefix.Addr().Is4() {
		length += mappedBits
	}
	address := k.Prefix.Masked().Addr().As16()
	bits := matchMatchPrefix{Length: uint32(length)}
	for i := range bits.Address {
		bits.Address[i] = binary.NativeEndian.Uint32(address[4*i:])
	}
	return bits
}
