package limit

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"
)

// Assignments say which scope applies to which traffic; the values are numbers of scopes.
type Assignments struct {
	Cgroups    map[uint64]int // by id
	Users      map[uint32]int
	Interfaces map[int]int // by index
	Prefixes   map[netip.Prefix]int
}

// Active says whether scopes were ever assigned. A data plane that was loaded anew, and one whose filling was cut off before
// the first Reassign has ended, lets every packet pass.
func (p *DataPlane) Active() bool { return p.settings.Generation != 0 }

// Reassign ends the assignments that are gone, whatever their scopes, and makes those of now; what is in neither stays. Sockets
// look their scopes up again once, after the last of them. An error leaves some done and others not; it can be repeated.
func (p *DataPlane) Reassign(gone, now Assignments) error {
	o := &p.objects
	if err := errors.Join(
		reassign(p, o.LimitCgroups, gone.Cgroups, now.Cgroups, func(id uint64) uint64 { return id }, &p.settings.Cgroups),
		reassign(p, o.LimitUsers, gone.Users, now.Users, func(uid uint32) uint32 { return uid }, &p.settings.Users),
		reassign(p, o.LimitInterfaces, gone.Interfaces, now.Interfaces, func(index int) uint32 { return uint32(index) }, &p.settings.Interfaces),
		reassign(p, o.LimitPrefixes, gone.Prefixes, now.Prefixes, prefixKey, &p.settings.Prefixes),
	); err != nil {
		return err
	}
	return p.renew()
}

// reassign brings one map up to date; used is set where it has entries.
func reassign[T comparable, K any](p *DataPlane, entries *ebpf.Map, gone, now map[T]int, key func(T) K, used *uint8) error {
	for what := range gone {
		if _, stays := now[what]; stays {
			continue
		}
		if err := entries.Delete(key(what)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("unassign scope: %w", err)
		}
	}
	keys, scopes := make([]K, 0, len(now)), make([]uint32, 0, len(now))
	for what, scope := range now {
		if err := p.known(scope); err != nil {
			return err
		}
		keys, scopes = append(keys, key(what)), append(scopes, uint32(scope))
	}
	if len(keys) == 0 {
		return nil
	}
	*used = 1
	if err := putAll(entries, keys, scopes); err != nil {
		return fmt.Errorf("assign scopes: %w", err)
	}
	return nil
}

// putAll stores entries with one system call where the kernel can (Linux 5.6; 5.13 for prefixes), else one by one.
func putAll[K, V any](entries *ebpf.Map, keys []K, values []V) error {
	if n, err := entries.BatchUpdate(keys, values, nil); err == nil && n == len(keys) {
		return nil
	}
	for i := range keys {
		if err := entries.Put(keys[i], values[i]); err != nil {
			return err
		}
	}
	return nil
}
