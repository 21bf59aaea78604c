package limit

import (
	"encoding/binary"
	"errors"
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

// AssignInterface makes the scope apply to what passes the interface with this index, of the network namespace in which the data
// plane was loaded. Before Linux 6.15 the same index in another namespace is taken for it.
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

// UnassignCgroup, UnassignUser, UnassignInterface and UnassignPrefix undo the assignment; one that is not there is no error.
func (p *DataPlane) UnassignCgroup(id uint64) error { return p.unassign(p.objects.LimitCgroups, id) }

func (p *DataPlane) UnassignUser(uid uint32) error { return p.unassign(p.objects.LimitUsers, uid) }

func (p *DataPlane) UnassignInterface(index int) error {
	return p.unassign(p.objects.LimitInterfaces, uint32(index))
}

func (p *DataPlane) UnassignPrefix(prefix netip.Prefix) error {
	return p.unassign(p.objects.LimitPrefixes, prefixKey(prefix))
}

func (p *DataPlane) unassign(entries *ebpf.Map, key any) error {
	if err := entries.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("unassign scope: %w", err)
	}
	return p.renew()
}

// renew makes every socket look its scopes up again.
func (p *DataPlane) renew() error {
	p.settings.Generation++
	if err := p.objects.LimitCurrent.Put(uint32(0), p.settings); err != nil {
		return fmt.Errorf("renew scopes: %w", err)
	}
	return nil
}

// assign stores one entry and makes every socket look its scopes up again.
func (p *DataPlane) assign(entries *ebpf.Map, key any, scope int) error {
	if err := p.known(scope); err != nil {
		return err
	}
	if err := entries.Put(key, uint32(scope)); err != nil {
		return fmt.Errorf("assign scope %d: %w", scope, err)
	}
	return p.renew()
}

// Overflow is the number of packets that had more than MaxDepth scopes; the outermost of those were not charged.
func (p *DataPlane) Overflow() (n uint64, err error) {
	var each []uint64
	if err := p.objects.LimitOverflow.Lookup(uint32(0), &each); err != nil {
		return 0, fmt.Errorf("read overflow: %w", err)
	}
	for _, count := range each {
		n += count
	}
	return n, nil
}
