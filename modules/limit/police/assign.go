// SPDX-License-Identifier: Apache-2.0

package police

import (
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"

	"weir/core/match"
)

// Active reports whether scopes were ever assigned. A new data plane passes all packets until the
// first Reassign has ended.
func (p *DataPlane) Active() bool { return p.settings.Generation != 0 }

// Reassign removes the assignments in gone, of any scope, adds those in now, and keeps all others.
// Sockets look up their scopes again once, at the end. After an error some changes are applied; the
// call can be repeated.
func (p *DataPlane) Reassign(gone, now match.Assignments) error {
	for _, scope := range now {
		if err := p.known(scope); err != nil {
			return err
		}
	}
	used, err := match.Maps{Program: ebpf.CGroupSKB, Entries: p.maps()}.Reassign(gone, now)
	p.settings.Kinds |= used
	if err != nil {
		return err
	}
	return p.renew()
}

// Assign assigns the scope to the traffic of a key.
func (p *DataPlane) Assign(key match.Key, scope int) error {
	return p.Reassign(nil, match.Assignments{key: scope})
}

// AssignCgroup, AssignUser, AssignInterface and AssignPrefix assign one scope each.
func (p *DataPlane) AssignCgroup(id uint64, scope int) error {
	return p.Assign(match.OfCgroup(id), scope)
}

func (p *DataPlane) AssignUser(uid uint32, scope int) error {
	return p.Assign(match.OfUser(uid), scope)
}

func (p *DataPlane) AssignInterface(index int, scope int) error {
	return p.Assign(match.OfInterface(index), scope)
}

func (p *DataPlane) AssignPrefix(prefix netip.Prefix, scope int) error {
	return p.Assign(match.OfPrefix(prefix), scope)
}

// Unassign removes an assignment; a missing one is no error.
func (p *DataPlane) Unassign(key match.Key) error {
	return p.Reassign(match.Assignments{key: 0}, nil)
}

// renew makes all sockets look up their scopes again.
func (p *DataPlane) renew() error {
	p.settings.Generation++
	if err := p.objects.LimitCurrent.Put(uint32(0), p.settings); err != nil {
		return fmt.Errorf("renew scopes: %w", err)
	}
	return nil
}

// Overflow returns the number of packets with more than MaxDepth scopes, which were not charged to
// the outermost scopes.
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

// Scopes returns the number of scopes that the data plane was loaded for.
func (p *DataPlane) Scopes() int { return p.scopes }

// Cgroups returns the map from cgroup ids to scopes.
func (p *DataPlane) Cgroups() *ebpf.Map { return p.objects.ScopeCgroups }

// ExpectCgroups enables the cgroup lookup, for cgroups that are assigned later. It takes effect
// with the next Reassign.
func (p *DataPlane) ExpectCgroups() { p.settings.Kinds |= match.Cgroups }
