// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"errors"
	"fmt"
	"maps"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// program loads the program of a port.
func (t *Table) program(index int) (*ebpf.Program, error) {
	if p := t.programs[index]; p != nil {
		return p, nil
	}
	n, err := t.port(index)
	if err != nil {
		return nil, err
	}
	spec := t.spec.Copy()
	if err := spec.Variables["fast_port"].Set(uint32(n)); err != nil {
		return nil, fmt.Errorf("set the program's port: %w", err)
	}
	if kind := t.planner.State().Links[index].Kind; kind == "veth" || kind == "bond" {
		if err := spec.Variables["fast_transmit"].Set(uint32(0)); err != nil {
			return nil, fmt.Errorf("set the program's port: %w", err)
		}
	}
	var programs fastPrograms
	shared := map[string]*ebpf.Map{
		"fast_blocks": t.objects.FastBlocks, "fast_inputs": t.objects.FastInputs, "fast_nexts": t.objects.FastNexts, "fast_hops": t.objects.FastHops,
		"fast_own": t.objects.FastOwn, "fast_lease": t.objects.FastLease, "fast_forwarded": t.objects.FastForwarded, "fast_left": t.objects.FastLeft,
		"fast_ports": t.objects.FastPorts,
	}
	maps.Copy(shared, t.Samples().By())
	err = spec.LoadAndAssign(&programs, &ebpf.CollectionOptions{MapReplacements: shared})
	if err != nil {
		return nil, programNeeds.Fault("load the fast path's program", err)
	}
	t.programs[index] = programs.FastForward
	return programs.FastForward, nil
}

// Attach attaches the program to a port, in the driver if it supports XDP. It replaces the program
// of an earlier table atomically. driver reports driver mode.
func (t *Table) Attach(index int, before link.Link) (attached link.Link, driver bool, err error) {
	p, err := t.program(index)
	if err != nil {
		return nil, false, err
	}
	if before != nil {
		if err := before.Update(p); err != nil {
			return nil, false, fmt.Errorf("replace the fast path's program: %w", err)
		}
		return before, true, nil
	}
	err = t.ns.Do(func() (err error) {
		attached, err = link.AttachXDP(link.XDPOptions{Program: p, Interface: index, Flags: link.XDPDriverMode})
		driver = err == nil
		if errors.Is(err, ebpf.ErrNotSupported) {
			attached, err = link.AttachXDP(link.XDPOptions{Program: p, Interface: index, Flags: link.XDPGenericMode})
		}
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("attach the fast path to device %d: %w", index, err)
	}
	return attached, driver, nil
}
