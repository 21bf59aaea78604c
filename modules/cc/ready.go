// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"weir/core/match"
	"weir/core/module"
	"weir/internal/fault"
	"weir/kernel/bpffs"
	"weir/kernel/cgroup"
	"weir/kernel/probe"
)

// Ready rejects controls and selectors that this host lacks.
func (p *hostPlane) Ready(want module.State) error {
	if err := bpffs.CanPin(p.host.Pins); err != nil {
		return err
	}
	if err := cgroup.Attachable(p.host.CgroupRoot, ebpf.AttachCGroupSockOps); err != nil {
		return err
	}
	offered, err := probe.CongestionControls()
	if err != nil {
		return err
	}
	all, controls := []error{want.Matchable(ebpf.SockOps)}, map[string]error{}
	for _, b := range want.Scopes {
		control := treatmentOf(b.Scope).Control
		if control == "" {
			// Every kind of scope needs access to kernel structures.
			if err := match.Cgroup.Needs(ebpf.SockOps); err != nil {
				all = append(all, &module.Unsupported{Scope: b.Name, Key: downloadsKey, Err: err})
			}
			continue
		}
		if _, asked := controls[control]; !asked {
			controls[control] = p.available(control, offered)
		}
		if err := controls[control]; err != nil {
			all = append(all, &module.Unsupported{Scope: b.Name, Key: key, Err: err})
		}
	}
	return errors.Join(all...)
}

// available returns why a control cannot be used here, or nil.
func (p *hostPlane) available(control string, offered []string) error {
	// The program reads kernel structures for scopes of any kind.
	if err := match.Cgroup.Needs(ebpf.SockOps); err != nil {
		return err
	}
	name, _, own := p.module.controlName(control)
	switch {
	case slices.Contains(offered, name):
		return nil
	case own:
		return supported()
	}
	if meant := near(control); meant != "" {
		return fault.New(fault.Usage, "write "+meant, "this kernel has no congestion control %q (did you mean %q?)", control, meant)
	}
	return fault.New(fault.Testbed, fmt.Sprintf("load its module, as with modprobe tcp_%s, and name it in /etc/modules-load.d to have it after a restart; or choose one of %s",
		control, strings.Join(append(Algorithms(), offered...), ", ")), "this kernel offers no congestion control %q", control)
}
