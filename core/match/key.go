// SPDX-License-Identifier: Apache-2.0

package match

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
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
	// Bits is the number of leading bits of a user id that count; 0 for all.
	Bits int `json:"bits,omitempty"`
}

// OfCgroup returns the key of a cgroup and its descendants, within the first MaxCgroupLevels
// levels.
func OfCgroup(id uint64) Key { return Key{Kind: Cgroup, Number: id} }

// OfUser returns the key of the sockets of a user.
func OfUser(uid uint32) Key { return Key{Kind: User, Number: uint64(uid)} }

// OfUsers returns the keys of count users from the first on: the aligned blocks of the range.
func OfUsers(first, count uint32) (all []Key) {
	for at, end := uint64(first), min(uint64(first)+uint64(count), 1<<userBits); at < end; {
		size := bits.TrailingZeros64(at | 1<<userBits)
		for uint64(1)<<size > end-at {
			size--
		}
		k := OfUser(uint32(at))
		if size > 0 {
			k.Bits = userBits - size
		}
		all = append(all, k)
		at += 1 << size
	}
	return all
}

// userBits is the length of a user id.
const userBits = 32

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
	case k.Bits < 0 || k.Bits > userBits || k.Bits > 0 && k.Kind != User:
		return fmt.Errorf("a key of the %s cannot count %d bits", k.Kind, k.Bits)
	case kind.narrow && k.Number > math.MaxUint32:
		return fmt.Errorf("the number of the %s is above 32 bits: %d", k.Kind, k.Number)
	}
	return nil
}

// mappedBits is the prefix length of IPv4-mapped addresses.
const mappedBits = 96

// prefix maps IPv4 into IPv6, so that one trie holds both.
func (k Key) prefix() matchMatchPrefix {
	length := k.Prefix.Bits()
	if k.Prefix.Addr().Is4() {
		length += mappedBits
	}
	address := k.Prefix.Masked().Addr().As16()
	key := matchMatchPrefix{Length: uint32(length)}
	for i := range key.Address {
		key.Address[i] = binary.NativeEndian.Uint32(address[4*i:])
	}
	return key
}

// users returns the entry of a user id, or of all user ids with the same leading bits.
func (k Key) users() matchMatchUsers {
	length := uint32(userBits)
	if k.Bits > 0 {
		length = uint32(k.Bits)
	}
	var id [4]byte
	binary.BigEndian.PutUint32(id[:], uint32(k.Number))
	return matchMatchUsers{Length: length, User: binary.NativeEndian.Uint32(id[:])}
}
