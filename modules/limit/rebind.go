// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"errors"
	"io/fs"

	"github.com/cilium/ebpf"

	"weir/core/match"
	"weir/core/module"
)

// rebind has the kernel bind cgroups that are made again. Where it cannot, whoever follows the
// policy does, some milliseconds later.
func (p *hostPlane) rebind(plane *DataPlane, want module.State) (notes []string) {
	err := match.Rebind(p.host.Pins, plane.objects.ScopeCgroups, want.Places())
	if err == nil || errors.Is(err, ebpf.ErrNotSupported) {
		return nil
	}
	return []string{"cgroups that are made again are limited once somebody has looked: " + err.Error()}
}

// Holds says whether traffic of a key is a scope's, whoever has bound it.
func (p *hostPlane) Holds(scope int, key match.Key) (bool, error) {
	opened, err := LoadPinned(p.host.Pins)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = opened.Close() }()
	return match.Holds(opened.objects.ScopeCgroups, key, scope)
}
