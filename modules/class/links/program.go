// SPDX-License-Identifier: Apache-2.0

package links

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"weir/kernel/bpferr"
)

// load loads the classifier of a link. If later is set, the classifier handles the queues of shaped
// packets too. The tc filter keeps the program loaded.
func (t *Treatment) load(later bool) (*ebpf.Program, uint32, error) {
	var objects struct {
		Program *ebpf.Program `ebpf:"links_classify"`
	}
	if err := t.loadInto(&objects, later); err != nil {
		return nil, 0, err
	}
	info, err := objects.Program.Info()
	if err != nil {
		return nil, 0, programNeeds.Fault("identify classifying program", err)
	}
	id, _ := info.ID()
	return objects.Program, uint32(id), nil
}

// loadShadow loads the program that counts only.
func (t *Treatment) loadShadow() (*ebpf.Program, error) {
	var objects struct {
		Program *ebpf.Program `ebpf:"links_shadow"`
	}
	err := t.loadInto(&objects, false)
	return objects.Program, err
}

// loadInto loads a program, with the maps that it has alone.
func (t *Treatment) loadInto(objects any, later bool) error {
	spec, err := loadClassify()
	if err != nil {
		return fmt.Errorf("read classifying program: %w", err)
	}
	classes, within := t.handles()
	departing := classifyLinksDeparting{}
	if later {
		departing.More = laterMinor - firstMinor
		departing.Fallback = uint32(laterOf(slices.IndexFunc(t.Classes, func(c Class) bool { return c.Name == bestEffort })))
	}
	err = errors.Join(spec.Variables[classifyVarLinksClasses].Set(classes), spec.Variables[classifyVarLinksWithin].Set(within),
		spec.Variables[classifyVarLinksSettings].Set(t.settings()), spec.Variables[classifyVarLinksDeparting].Set(departing))
	if err != nil {
		return fmt.Errorf("set classifying program: %w", err)
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return programNeeds.Fault("lift memory lock limit", err)
	}
	if err := spec.LoadAndAssign(objects, nil); err != nil {
		return programNeeds.Fault("load classifying program", err)
	}
	return nil
}

// programNeeds lists the requirements of the programs.
var programNeeds = bpferr.Needs{Capabilities: "CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW", Kernel: "Linux 6.1 or later with CONFIG_BPF_JIT"}
