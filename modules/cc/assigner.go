// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"

	"weir/core/match"
	"weir/core/module"
	"weir/kernel/bpffs"
	"weir/kernel/bpfmap"
	"weir/kernel/cgroup"
)

// assigner is the program that gives controls to the connections of scopes, and its maps.
type assigner struct {
	objects assignObjects
	link    link.Link // nil before attach
}

// policyProgram is the kernel name of a policy's program. A release finds it by this name if its
// pin is lost. Programs of weir cc install have another name.
const policyProgram = "assign_policy"

// loadAssigner loads the program for a number of scopes, with existing maps if given. It has no
// effect before reassign.
func loadAssigner(scopes int, name string, given map[string]*ebpf.Map) (*assigner, error) {
	spec, err := loadAssign()
	if err != nil {
		return nil, fmt.Errorf("read scope program: %w", err)
	}
	for _, name := range []string{assignMapAssignScopes, assignMapAssignCounts, assignMapAssignSharing} {
		spec.Maps[name].MaxEntries = uint32(scopes)
	}
	spec.Programs[assignProgAssignSockops].Name = name
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, programNeeds.Fault("lift memory lock limit", err)
	}
	if err := match.Prepare(spec, ebpf.SockOps, scopes); err != nil {
		return nil, err
	}
	a, options := &assigner{}, &ebpf.CollectionOptions{MapReplacements: given}
	if err := spec.LoadAndAssign(&a.objects, options); err == nil {
		return a, nil
	}
	// Windows are steered without the iterator that frees them.
	var programs struct {
		AssignSockops *ebpf.Program `ebpf:"assign_sockops"`
		assignMaps
	}
	if err := spec.LoadAndAssign(&programs, options); err != nil {
		return nil, programNeeds.Fault("load scope program", err)
	}
	a.objects.AssignSockops, a.objects.assignMaps = programs.AssignSockops, programs.assignMaps
	return a, nil
}

// attach attaches the program to a cgroup and its descendants, beside foreign programs.
func (a *assigner) attach(path string) error {
	attached, err := cgroup.AttachProgram(path, ebpf.AttachCGroupSockOps, a.objects.AssignSockops)
	if err != nil {
		return programNeeds.Fault("attach to cgroup "+path, err)
	}
	a.link = attached
	return nil
}

// detach ends the attachment, unless it is pinned.
func (a *assigner) detach() (err error) {
	if a.link != nil {
		err = a.link.Close()
	}
	a.link = nil
	return err
}

func (a *assigner) close() error { return errors.Join(a.detach(), a.objects.Close()) }

// set stores the parameters of scopes by number.
func (a *assigner) set(indices []uint32, scopes []assignCcScope) error {
	if len(indices) == 0 {
		return nil
	}
	if _, err := a.objects.AssignScopes.BatchUpdate(indices, scopes, nil); err != nil {
		return programNeeds.Fault("set scopes' congestion controls", err)
	}
	return nil
}

// reassign leads the assignments from one state's to another's, which are all that there are but
// for those of kinds that are to come.
func (a *assigner) reassign(have, want module.State, host match.Key, later uint32) error {
	maps := match.Maps{Program: ebpf.SockOps, Entries: match.Fields(&a.objects.assignMaps)}
	if err := maps.SetOrders(have.Orders(host), want.Orders(host)); err != nil {
		return err
	}
	kinds, err := maps.Reassign(have.Assignments(), want.Assignments())
	if err != nil {
		return err
	}
	if err := a.objects.AssignSettings.Put(uint32(0), assignCcSettings{Kinds: kinds | later, Filled: 1}); err != nil {
		return fmt.Errorf("set scope program: %w", err)
	}
	return nil
}

// filled reports whether everything was set at least once.
func (a *assigner) filled() (bool, error) {
	var settings assignCcSettings
	if err := a.objects.AssignSettings.Lookup(uint32(0), &settings); err != nil {
		return false, fmt.Errorf("read scope program's settings: %w", err)
	}
	return settings.Filled == 1, nil
}

// forget ends scopes and sets their counters to zero, for others that may get their numbers.
func (a *assigner) forget(indices []uint32) error {
	if err := a.set(indices, make([]assignCcScope, len(indices))); err != nil {
		return err
	}
	for _, index := range indices {
		if err := bpfmap.Clear[assignCcScopeCounts](a.objects.AssignCounts, index); err != nil {
			return fmt.Errorf("clear scope's counters: %w", err)
		}
	}
	return nil
}

// readCounts sums the per-CPU counters of a scope.
func readCounts(counts *ebpf.Map, index uint32) (sum Counts, err error) {
	c, err := bpfmap.Sum[assignCcScopeCounts](counts, index)
	if err != nil {
		return sum, fmt.Errorf("read scope's counters: %w", err)
	}
	return Counts{Assigned: c.Assigned, NoECN: c.NoEcn, Chosen: c.Chosen, Failed: c.Failed,
		Received: Received{Connections: c.Receivers, NoTimestamps: c.NoTimestamps, Slowdowns: c.Slowdowns, Reductions: c.Reductions,
			Steps: c.Steps, WindowSum: c.Window, DelaySum: c.Delay}}, nil
}

// linkPin is pinned last: its presence means that all pins exist.
const linkPin = "link"

// freePin is the iterator that gives windows back; a kernel may have none.
const freePin = "free"

// pin keeps the program and its maps under dir.
func (a *assigner) pin(dir string) error {
	if err := a.maps().Pin(dir); err != nil {
		return err
	}
	if free := a.objects.ReceiveFree; free != nil {
		if err := free.Pin(filepath.Join(dir, freePin)); err != nil {
			return bpffs.Fault(fmt.Errorf("pin program that frees windows: %w", err))
		}
	}
	if err := a.link.Pin(filepath.Join(dir, linkPin)); err != nil {
		return bpffs.Fault(fmt.Errorf("pin scope program: %w", err))
	}
	return nil
}

// pins are the objects that pin keeps, by their pins' names.
func (a *assigner) pins() map[string]bpffs.Pinner {
	all := map[string]bpffs.Pinner{linkPin: a.link}
	for name, m := range a.maps() {
		_, short, _ := strings.Cut(name, "_")
		all[short] = *m
	}
	if free := a.objects.ReceiveFree; free != nil {
		all[freePin] = free
	}
	return all
}

// layouts holds the layouts of the maps.
var layouts = bpffs.Layouts(loadAssign)

// openAssigner opens the pins. The error is fs.ErrNotExist if pins are missing, maps have another
// layout, or the cgroup of the attachment is gone.
func openAssigner(dir string) (a *assigner, err error) {
	layouts, err := layouts()
	if err != nil {
		return nil, fmt.Errorf("read scope program: %w", err)
	}
	a = &assigner{}
	defer func() {
		if err != nil {
			_ = a.close()
			a = nil
		}
	}()
	if a.link, err = link.LoadPinnedLink(filepath.Join(dir, linkPin), nil); err != nil {
		return a, bpffs.Opening(err)
	}
	info, err := a.link.Info()
	if err != nil {
		return a, fmt.Errorf("read attachment: %w", err)
	}
	if group := info.Cgroup(); group == nil || group.CgroupId == 0 {
		return a, fs.ErrNotExist
	}
	a.objects.ReceiveFree, _ = ebpf.LoadPinnedProgram(filepath.Join(dir, freePin), nil)
	return a, a.maps().Open(dir, layouts)
}

func (a *assigner) maps() bpffs.Maps { return match.Fields(&a.objects.assignMaps) }
