// SPDX-License-Identifier: Apache-2.0

package police

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weir/kernel/bpffs"
)

// Grow replaces the pinned data plane by one for more scopes, with the content of all maps. Each
// packet meets one of the two, and both share the state of sockets; counts during the copy are
// lost.
func (p *DataPlane) Grow(scopes int) (*DataPlane, error) {
	shared, err := p.storages()
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, m := range shared {
			_ = m.Close()
		}
	}()
	given := maps.Clone(shared)
	given[limitMapLimitCurrent], given[limitMapLimitOverflow] = p.objects.LimitCurrent, p.objects.LimitOverflow
	next, err := loadWith(scopes, given)
	if err != nil {
		return nil, err
	}
	next.path, next.dir, next.ingress, next.settings, next.grown = p.path, p.dir, p.ingress, p.settings, true
	err = next.copyFrom(p)
	if err == nil {
		err = next.replace()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("grow to %d scopes: %w", scopes, err), next.Close())
	}
	return next, nil
}

// storages opens the storages of sockets by name. They have no pins and live as long as the
// programs.
func (p *DataPlane) storages() (map[string]*ebpf.Map, error) {
	info, err := p.objects.LimitIngress.Info()
	if err != nil {
		return nil, fmt.Errorf("read limit programs: %w", err)
	}
	all := map[string]*ebpf.Map{}
	ids, _ := info.MapIDs()
	for _, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			return nil, programNeeds.Fault("open maps", err)
		}
		if m.Type() != ebpf.SkStorage {
			_ = m.Close()
			continue
		}
		about, err := m.Info()
		if err != nil {
			return nil, programNeeds.Fault("open maps", errors.Join(err, m.Close()))
		}
		all[about.Name] = m
	}
	if all[limitMapLimitSockets] == nil || all[limitMapLimitOwners] == nil {
		return nil, errors.New("limit programs have no socket storage")
	}
	return all, nil
}

// copyFrom copies all maps that are not shared.
func (p *DataPlane) copyFrom(from *DataPlane) error {
	before := from.maps()
	for name, to := range p.maps() {
		var err error
		switch name {
		case limitMapLimitCurrent, limitMapLimitOverflow:
		case limitMapLimitCounts:
			err = bpffs.CopyEach[limitLimitCounters](*before[name], *to)
		case limitMapLimitRtts:
			err = bpffs.CopyEach[limitLimitRtt](*before[name], *to)
		default:
			err = bpffs.Copy(*before[name], *to)
		}
		if err != nil {
			return fmt.Errorf("copy %s: %w", name, err)
		}
	}
	return nil
}

// replace replaces the pins and the attached programs by those of this data plane. A crash inside
// it leaves pins that Attached rejects.
func (p *DataPlane) replace() error {
	pins := map[string]bpffs.Pinner{}
	for name, m := range p.maps() {
		if name != limitMapLimitCurrent && name != limitMapLimitOverflow {
			pins[mapPin(name)] = *m
		}
	}
	for name, program := range p.programs() {
		if *program != nil {
			pins[name] = *program
		}
	}
	return bpffs.Replace(p.dir, pins, func() error {
		for number := range ingressPin + 1 {
			if err := p.replaceProgram(filepath.Join(p.dir, linkPin(number))); err != nil {
				return err
			}
		}
		return nil
	})
}

// replaceProgram updates a pinned attachment to the program of this data plane; a missing one is no
// error.
func (p *DataPlane) replaceProgram(pin string) error {
	attached, err := link.LoadPinnedLink(pin, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return filePermission(fmt.Errorf("open attachment: %w", err))
	}
	defer func() { _ = attached.Close() }()
	hook, in, err := pinnedHook(pin)
	if err != nil || !in {
		return err
	}
	program := map[ebpf.AttachType]*ebpf.Program{ebpf.AttachCGroupInetEgress: p.objects.LimitEgress,
		ebpf.AttachCGroupInetIngress: p.objects.LimitIngress, ebpf.AttachCGroupSockOps: p.objects.LimitSockops}[hook]
	if err := attached.Update(program); err != nil {
		return programNeeds.Fault(fmt.Sprintf("replace program at %s", hook), err)
	}
	return nil
}
