// SPDX-License-Identifier: Apache-2.0

package links

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"weir/internal/fault"
)

// load loads the program that tells the classes of a link. The filter keeps it once it is there.
func (t *Treatment) load() (*ebpf.Program, uint32, error) {
	spec, err := loadClassify()
	if err != nil {
		return nil, 0, fmt.Errorf("read classifying program: %w", err)
	}
	if err := spec.Variables["links_classes"].Set(t.handles()); err != nil {
		return nil, 0, fmt.Errorf("set classifying program: %w", err)
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, 0, refused("lift memory lock limit", err)
	}
	var objects classifyObjects
	if err := spec.LoadAndAssign(&objects, nil); err != nil {
		return nil, 0, refused("load classifying program", err)
	}
	defer func() { _ = objects.classifyMaps.Close() }() // the program holds what it needs
	info, err := objects.LinksClassify.Info()
	if err != nil {
		return nil, 0, refused("identify classifying program", err)
	}
	id, _ := info.ID()
	return objects.LinksClassify, uint32(id), nil
}

func refused(what string, err error) error {
	return fault.Wrap(fmt.Errorf("%s: %w", what, err), fault.Permission, "run it as root, or with CAP_BPF and CAP_NET_ADMIN")
}
