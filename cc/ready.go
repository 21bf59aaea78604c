// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/internal/kernel/probe"
	"weir/internal/match"
	"weir/internal/room"
)

// Ready refuses controls and selectors that this host does not have, before anything changes.
func (p *hostPlane) Ready(want room.State) error {
	if err := canPin(p.host.Pins); err != nil {
		return err
	}
	offered, err := probe.CongestionControls()
	if err != nil {
		return err
	}
	var all []error
	kinds, controls := map[match.Kind]error{}, map[string]error{}
	for _, b := range want.Scopes {
		control := treatmentOf(b.Scope).Control
		if _, asked := controls[control]; !asked {
			controls[control] = p.available(control, offered)
		}
		if err := controls[control]; err != nil {
			all = append(all, &room.Refusal{Scope: b.Name, Key: key, Err: err})
			continue
		}
		kind := b.Binding.Kind
		if _, asked := kinds[kind]; !asked && kind != "" {
			kinds[kind] = kind.Needs(ebpf.SockOps)
		}
		if err := kinds[kind]; err != nil {
			all = append(all, &room.Refusal{Scope: b.Name, Key: b.Selector.Kind, Err: err})
		}
	}
	return errors.Join(all...)
}

// available says why connections cannot have a control here.
func (p *hostPlane) available(control string, offered []string) error {
	// What scopes of any kind take: the program reads the kernel's structures.
	if err := match.Cgroup.Needs(ebpf.SockOps); err != nil {
		return err
	}
	name, _, own := p.room.controlName(control)
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

// canPin refuses a folder that has no bpf file system at or above it; the folder need not exist.
func canPin(dir string) error {
	var found unix.Statfs_t
	err := unix.Statfs(dir, &found)
	for errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		err = unix.Statfs(dir, &found)
	}
	if err != nil {
		return pinFault(fmt.Errorf("look for a bpf file system at %s: %w", dir, err))
	}
	if found.Type != unix.BPF_FS_MAGIC {
		return fault.New(fault.Testbed, "mount one: mount -t bpf -o mode=700 bpf /sys/fs/bpf", "no bpf file system is mounted at %s", dir)
	}
	return nil
}
