// SPDX-License-Identifier: Apache-2.0

package police

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
)

// acceptHooks maps the pins of the attachments that record owners of accepted sockets to their
// hooks.
var acceptHooks = map[string]ebpf.AttachType{"link-accept4": ebpf.AttachCgroupInet4GetPeername, "link-accept6": ebpf.AttachCgroupInet6GetPeername}

// AttachAccept charges an accepted or inherited socket to the cgroup of the process that asks for
// its peer: the listener of a unit may belong to the service manager. Pinned attachments stay.
func (p *DataPlane) AttachAccept() error {
	if p.dir != "" {
		_, four := os.Stat(filepath.Join(p.dir, "link-accept4"))
		_, six := os.Stat(filepath.Join(p.dir, "link-accept6"))
		if four == nil && six == nil {
			return nil
		}
	}
	spec, err := loadAccept()
	if err != nil {
		return fmt.Errorf("read accept programs: %w", err)
	}
	storages, err := p.storages()
	if err != nil {
		return err
	}
	defer func() {
		for _, m := range storages {
			_ = m.Close()
		}
	}()
	shared := maps.Clone(storages)
	shared[limitMapScopeCgroups] = p.objects.ScopeCgroups
	spec.Maps[limitMapScopeCgroups].MaxEntries = p.objects.ScopeCgroups.MaxEntries()
	var programs acceptPrograms
	if err := spec.LoadAndAssign(&programs, &ebpf.CollectionOptions{MapReplacements: shared}); err != nil {
		return programNeeds.Fault("load accept programs", err)
	}
	defer func() { _ = programs.Close() }()
	for pin, hook := range acceptHooks {
		program := map[ebpf.AttachType]*ebpf.Program{ebpf.AttachCgroupInet4GetPeername: programs.LimitAccept4, ebpf.AttachCgroupInet6GetPeername: programs.LimitAccept6}[hook]
		attached, err := p.attach(hook, program)
		if err != nil {
			return err
		}
		if p.dir == "" {
			p.links = append(p.links, attached)
			continue
		}
		err = attached.Pin(filepath.Join(p.dir, pin))
		if err = errors.Join(err, attached.Close()); err != nil && !errors.Is(err, fs.ErrExist) {
			return filePermission(fmt.Errorf("pin %s: %w", pin, err))
		}
	}
	return nil
}
