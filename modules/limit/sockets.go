// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"path/filepath"

	"github.com/cilium/ebpf"

	"weir/kernel/netns"
	"weir/kernel/sockets"
)

// ErrNoIterator says that the kernel cannot iterate over sockets.
var ErrNoIterator = sockets.ErrNoIterator

// Adopt makes the data plane pace the TCP sockets of a network namespace that were open before it
// was attached. They are charged, marked and dropped without it.
func (p *DataPlane) Adopt(ns *netns.Namespace) error {
	return programNeeds.Fault("visit open connections", sockets.VisitTCP(ns, p.objects.LimitAdopt))
}

// Free gives the TCP sockets of a network namespace back the pacing rates that their applications
// had set. It is for a data plane whose attachments have ended; otherwise the sockets are paced
// again.
func (p *DataPlane) Free(ns *netns.Namespace) error {
	return programNeeds.Fault("visit open connections", sockets.VisitTCP(ns, p.objects.LimitFree))
}

// Rescue is what another process must know to do as Free does, once this one has died. The error is
// ErrNoIterator where sockets cannot be set free.
func (p *DataPlane) Rescue() (sockets.Rescue, error) {
	return sockets.NewRescue(p.path, p.objects.LimitFree, p.objects.LimitSockops)
}

// programs names the programs that are pinned, so that a later process can free sockets, and limit
// ingress where nothing did before.
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

// openPrograms opens the pinned programs; a kernel without iterators has none of those.
func (p *DataPlane) openPrograms(dir string) {
	for name, program := range p.programs() {
		if opened, err := ebpf.LoadPinnedProgram(filepath.Join(dir, name), nil); err == nil {
			*program = opened
		}
	}
}
