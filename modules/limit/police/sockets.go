// SPDX-License-Identifier: Apache-2.0

package police

import (
	"fmt"
	"path/filepath"

	"github.com/cilium/ebpf"

	"weir/kernel/netns"
	"weir/kernel/sockets"
)

// ErrNoIterator is returned by kernels without TCP iterators.
var ErrNoIterator = sockets.ErrNoIterator

// Adopt paces the TCP sockets of a network namespace that were open before the attach. They are
// charged, marked and dropped in any case.
func (p *DataPlane) Adopt(ns *netns.Namespace) error {
	return programNeeds.Fault("visit open connections", sockets.VisitTCP(ns, p.objects.LimitAdopt))
}

// Free restores the pacing rates that applications had set on the TCP sockets of a network
// namespace. Detach the programs first; they would pace the sockets again.
func (p *DataPlane) Free(ns *netns.Namespace) error {
	return programNeeds.Fault("visit open connections", sockets.VisitTCP(ns, p.objects.LimitFree))
}

// Rescue returns the means for another process to call Free after the end of this one. The error is
// ErrNoIterator on kernels without iterators.
func (p *DataPlane) Rescue() (sockets.Rescue, error) {
	return sockets.NewRescue(p.path, p.objects.LimitFree, p.objects.LimitSockops)
}

// programs returns the programs with pins by name: a later process needs them to free sockets and
// to attach ingress.
func (p *DataPlane) programs() map[string]**ebpf.Program {
	return map[string]**ebpf.Program{"adopt": &p.objects.LimitAdopt, "free": &p.objects.LimitFree, "ingress": &p.objects.LimitIngress}
}

func (p *DataPlane) pinPrograms(dir string) error {
	for name, program := range p.programs() {
		if *program == nil {
			continue
		}
		if err := (*program).Pin(filepath.Join(dir, name)); err != nil {
			return filePermission(fmt.Errorf("pin program %s: %w", name, err))
		}
	}
	return nil
}

// openPrograms opens the pinned programs; without kernel support there are no iterators.
func (p *DataPlane) openPrograms(dir string) {
	for name, program := range p.programs() {
		if opened, err := ebpf.LoadPinnedProgram(filepath.Join(dir, name), nil); err == nil {
			*program = opened
		}
	}
}
