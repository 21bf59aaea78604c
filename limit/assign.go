package limit

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"
)

// AssignCgroup makes the scope apply to the cgroup with this id, the inode number of its directory, and all below it.
func (p *DataPlane) AssignCgroup(id uint64, scope int) error {
	p.settings.Cgroups = 1
	return p.assign(p.objects.LimitCgroups, id, scope)
}

// AssignUser makes the scope apply to the sockets of a user.
func (p *DataPlane) AssignUser(uid uint32, scope int) error {
	p.settings.Users = 1
	return p.assign(p.objects.LimitUsers, uid, scope)
}

// AssignInterface makes the scope apply to what passes the interface with this index.
func (p *DataPlane) AssignInterface(index int, scope int) error {
	p.settings.Interfaces = 1
	return p.assign(p.objects.LimitInterfaces, uint32(index), scope)
}

// AssignPrefix makes the scope apply to traffic with a remote address in the prefix; of several, the longest match counts.
func (p *DataPlane) AssignPrefix(prefix netip.Prefix, scope int) error {
	if !prefix.IsValid() {
		return fmt.Errorf("assign scope %d: the prefix is not valid", scope)
	}
	p.settings.Prefixes = 1
	return p.assign(p.objects.LimitPrefixes, prefixKey(prefix), scope)
}

// prefixKey maps IPv4 into IPv6, so that one trie holds both.
func prefixKey(prefix netip.Prefix) limitLimitPrefix {
	length := prefix.Bits()
	if prefix.Addr().Is4() {
		length += 96
	}
	address := prefix.Masked().Addr().As16()
	key := limitLimitPrefix{Length: uint32(length)}
	for i := range key.Address {
		key.Address[i] = binary.NativeEndian.Uint32(address[4*i:])
	}
	return key
}

// assign stores one entry and makes every socket look its scopes up again.
func (p *DataPlane) assign(entries *ebpf.Map, key any, scope int) error {
	if err := p.known(scope); err != nil {
		return err
	}
	if err := entries.Put(key, uint32(scope)); err != nil {
		return fmt.Errorf("assign scope %d: %w", scope, err)
	}
	p.settings.Generation++
	if err := p.objects.Settings.Set(p.settings); err != nil {
		return fmt.Errorf("assign scope %d: %w", scope, err)
	}
	return nil
}

// Overflow is the number of packets that had more than MaxDepth scopes; the outermost of those were not charged.
func (p *DataPlane) Overflow() (n uint64, err error) {
	if err := p.objects.LimitOverflow.Get(&n); err != nil {
		return 0, fmt.Errorf("read overflow: %w", err)
	}
	return n, nil
}
