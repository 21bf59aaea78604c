// SPDX-License-Identifier: Apache-2.0

package police

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"

	"weir/core/match"
	"weir/kernel/bpferr"
	"weir/kernel/cgroup"
)

// MaxDepth is the maximum number of scopes that a packet is charged to.
const MaxDepth = match.MaxScopes

// DataPlane is the loaded programs and their maps. It is not safe for concurrent use. Close ends
// all limits that are not pinned.
type DataPlane struct {
	objects limitObjects
	links   []link.Link
	scopes  int
	path    string    // of the cgroup with the programs; empty before Attach
	dir     string    // directory of the pins; empty without
	ingress bool      // the ingress program is needed, and attached with the others
	inward  link.Link // attachment of the ingress program, if made by this process
	grown   bool      // by this process, so that its configurations are copies
	// settings is the content of limit_current.
	settings limitLimitSettings
}

// MaxScopes is the maximum number of scopes: limit.h packs their numbers into LIMIT_SCOPE_BITS.
const MaxScopes = 1 << limitLimitFormatLIMIT_SCOPE_BITS

// Load loads the data plane for scopes numbered from 0; their maximum number is MaxScopes.
func Load(scopes int) (*DataPlane, error) { return loadWith(scopes, nil) }

// LoadEgress loads the data plane without the ingress program: verifying it takes half of the
// time of Load. Set returns an error for an ingress limit. Do not pin it.
func LoadEgress(scopes int) (*DataPlane, error) {
	return loadWith(scopes, nil, limitProgLimitIngress)
}

// loadWith replaces some maps and leaves out some programs, by name.
func loadWith(scopes int, given map[string]*ebpf.Map, without ...string) (*DataPlane, error) {
	if scopes > MaxScopes {
		return nil, fmt.Errorf("load limit programs: %d scopes are more than %d", scopes, MaxScopes)
	}
	spec, err := loadLimit()
	if err != nil {
		return nil, fmt.Errorf("read limit programs: %w", err)
	}
	for _, name := range []string{"limit_configs", "limit_states", "limit_counts", "limit_shares"} {
		spec.Maps[name].MaxEntries = uint32(2 * scopes)
	}
	for _, name := range []string{"limit_tree", "limit_rtts"} {
		spec.Maps[name].MaxEntries = uint32(scopes)
	}
	if err := spec.Variables["tuned"].Set(&tunables); err != nil {
		return nil, fmt.Errorf("set tunables: %w", err)
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, programNeeds.Fault("raise memory lock limit", err)
	}
	plane := &DataPlane{scopes: scopes}
	if err := match.Prepare(spec, ebpf.CGroupSKB, scopes); err != nil {
		return nil, err
	}
	leaveOut(spec, without...)
	err = plane.load(spec, given)
	if err != nil { // older kernels lack TCP iterators, which limits do not require
		leaveOut(spec, limitProgLimitAdopt, limitProgLimitFree)
		err = plane.load(spec, given)
	}
	if err != nil {
		return nil, programNeeds.Fault("load limit programs", err)
	}
	return plane, nil
}

func leaveOut(spec *ebpf.CollectionSpec, programs ...string) {
	for _, name := range programs {
		delete(spec.Programs, name)
	}
}

// load loads the maps and programs of a specification, with the given maps in place of new ones.
func (p *DataPlane) load(spec *ebpf.CollectionSpec, given map[string]*ebpf.Map) error {
	all, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: given})
	if err != nil {
		return err
	}
	defer all.Close()
	o := &p.objects
	for name, program := range map[string]**ebpf.Program{limitProgLimitEgress: &o.LimitEgress, limitProgLimitIngress: &o.LimitIngress,
		limitProgLimitSockops: &o.LimitSockops, limitProgLimitAdopt: &o.LimitAdopt, limitProgLimitFree: &o.LimitFree} {
		*program = all.DetachProgram(name)
	}
	return all.Assign(&o.limitMaps)
}

// programNeeds lists the requirements of the programs.
var programNeeds = bpferr.Needs{Capabilities: bpferr.Standard, Kernel: "Linux 6.1 or later with cgroup v2 and CONFIG_CGROUP_BPF"}

// Attach attaches the programs to the cgroup at path, for it and all cgroups below, in addition to
// programs of others. The ingress program costs time per packet: it is attached with the first
// ingress limit, and detached by EndIngress.
func (p *DataPlane) Attach(path string) error {
	p.path = path
	for _, one := range []struct {
		hook    ebpf.AttachType
		program *ebpf.Program
	}{{ebpf.AttachCGroupInetEgress, p.objects.LimitEgress}, {ebpf.AttachCGroupSockOps, p.objects.LimitSockops}} {
		attached, err := p.attach(one.hook, one.program)
		if err != nil {
			return err
		}
		p.links = append(p.links, attached)
	}
	if !p.ingress {
		return nil
	}
	return p.attachIngress()
}

func (p *DataPlane) attach(hook ebpf.AttachType, program *ebpf.Program) (link.Link, error) {
	attached, err := cgroup.AttachProgram(p.path, hook, program)
	if err != nil {
		return nil, programNeeds.Fault(fmt.Sprintf("attach %s to %s", hook, p.path), err)
	}
	return attached, nil
}

func (p *DataPlane) known(scope int) error {
	if scope < 0 || scope >= p.scopes {
		return fmt.Errorf("scope %d is outside of the %d loaded scopes", scope, p.scopes)
	}
	return nil
}

// Clear removes the limit of one direction of a scope; its counters stay.
func (p *DataPlane) Clear(scope int, direction Direction) error {
	if err := p.known(scope); err != nil {
		return err
	}
	if err := p.objects.LimitConfigs.Put(uint32(2*scope)+uint32(direction), &limitLimitConfig{}); err != nil {
		return fmt.Errorf("clear scope %d: %w", scope, err)
	}
	return nil
}

// Limited reports whether a direction of a scope has a limit.
func (p *DataPlane) Limited(scope int, direction Direction) (bool, error) {
	if scope < 0 || scope >= p.scopes {
		return false, nil
	}
	var config limitLimitConfig
	if err := p.objects.LimitConfigs.Lookup(uint32(2*scope)+uint32(direction), &config); err != nil {
		return false, fmt.Errorf("read limit of scope %d: %w", scope, err)
	}
	return config.Rate != 0, nil
}

// Set sets the limit of one direction of a scope at once; the virtual queue keeps its state.
func (p *DataPlane) Set(scope int, direction Direction, l Limit) error {
	if err := p.known(scope); err != nil {
		return err
	}
	if err := l.Check(); err != nil {
		return err
	}
	if direction == Ingress {
		if err := p.needIngress(); err != nil {
			return err
		}
	}
	index, config := uint32(2*scope)+uint32(direction), l.config(direction)
	if err := errors.Join(p.prepare(index, config.Rate), p.shorten(index, config.Cost)); err != nil {
		return fmt.Errorf("prepare scope %d: %w", scope, err)
	}
	if err := p.objects.LimitConfigs.Put(index, &config); err != nil {
		return fmt.Errorf("set scope %d: %w", scope, err)
	}
	return nil
}

// prepare sets the fair rates to the full rate, from which they converge within some update
// intervals.
func (p *DataPlane) prepare(index uint32, rate uint64) error {
	var state limitLimitState
	if err := p.objects.LimitStates.Lookup(index, &state); err != nil || state.FairRate != 0 {
		return err
	}
	state.FairRate = rate
	return errors.Join(p.objects.LimitStates.Put(index, &state),
		p.objects.LimitShares.Put(index, &limitLimitFairShare{Unit: rate << limitLimitFormatLIMIT_UNIT_SHIFT}))
}

// Close detaches the programs and frees their maps, unless they are pinned.
func (p *DataPlane) Close() error {
	return errors.Join(p.closeLinks(), p.objects.Close())
}

func (p *DataPlane) closeLinks() error {
	var all []error
	for _, attached := range append(p.links, p.inward) {
		if attached != nil {
			all = append(all, attached.Close())
		}
	}
	p.links, p.inward = nil, nil
	return errors.Join(all...)
}
