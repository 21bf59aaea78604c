// SPDX-License-Identifier: Apache-2.0

package match

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
)

// Kind is a way of telling traffic.
type Kind string

// The kinds, and what the number of a Key means.
const (
	Cgroup    Kind = "cgroup"    // id, the inode number of its directory
	User      Kind = "user"      // uid
	Interface Kind = "interface" // index
	Prefix    Kind = "prefix"    // none: of the other end's address, the longest match counts
	Netns     Kind = "netns"     // cookie of a network namespace, SO_NETNS_COOKIE
	Mark      Kind = "mark"      // SO_MARK
)

// Key is one thing that traffic is told by. Two that a data plane cannot tell apart are equal if
// they come from the functions below. The zero value stands for nothing.
type Key struct {
	Kind   Kind         `json:"kind,omitempty"`
	Number uint64       `json:"number,omitempty"`
	Prefix netip.Prefix `json:"prefix,omitzero"`
}

// OfCgroup is the cgroup with this id and all below it, of the first MaxCgroupLevels levels.
func OfCgroup(id uint64) Key { return Key{Kind: Cgroup, Number: id} }

// OfUser is the sockets of a user.
func OfUser(uid uint32) Key { return Key{Kind: User, Number: uint64(uid)} }

// OfInterface is what passes the interface with this index, in the network namespace of Prepare.
// Where the kernel does not tell a packet's namespace (cgroup_skb before Linux 6.15), the same
// index in another one is taken for it.
func OfInterface(index int) Key { return Key{Kind: Interface, Number: uint64(index)} }

// OfPrefix is traffic with a remote address in the prefix. An IPv4-mapped one is the IPv4 prefix
// that it maps.
func OfPrefix(prefix netip.Prefix) Key {
	if address := prefix.Addr(); address.Is4In6() && prefix.Bits() >= mappedBits {
		prefix = netip.PrefixFrom(address.Unmap(), prefix.Bits()-mappedBits)
	}
	return Key{Kind: Prefix, Prefix: prefix.Masked()}
}

// OfNetns is the sockets of the network namespace with this cookie.
func OfNetns(cookie uint64) Key { return Key{Kind: Netns, Number: cookie} }

// OfMark is the sockets with this mark.
func OfMark(mark uint32) Key { return Key{Kind: Mark, Number: uint64(mark)} }

// String says how a data plane knows the traffic.
func (k Key) String() string {
	if kind, known := kinds[k.Kind]; known {
		return kind.words(k)
	}
	return fmt.Sprintf("unknown kind %q", k.Kind)
}

// check refuses a key that no packet could have.
func (k Key) check() error {
	kind, known := kinds[k.Kind]
	switch {
	case !known:
		return fmt.Errorf("traffic cannot be told by %q", k.Kind)
	case k.Kind == Prefix && !k.Prefix.IsValid():
		return fmt.Errorf("the prefix is not valid")
	case kind.narrow && k.Number > math.MaxUint32:
		return fmt.Errorf("the number of the %s is above 32 bits: %d", k.Kind, k.Number)
	}
	return nil
}

// mappedBits is the length of the prefix of IPv4-mapped addresses.
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
