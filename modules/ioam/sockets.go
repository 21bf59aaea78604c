// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weir/core/match"
	"weir/core/policy"
	"weir/internal/fault"
	"weir/kernel/bpffs"
	"weir/modules/ioam/codec"
)

// The option of sockets that takes a trace context, as setsockopt has it.
const (
	SocketLevel   = int(ioamIoamSocketOptionIOAM_SOCKET_LEVEL)
	SocketContext = int(ioamIoamSocketOptionIOAM_SOCKET_CONTEXT)
)

const (
	// defaultSchema is "W3C": of opaque state that is a context.
	defaultSchema = 0x573343
	contextState  = 4 * int(ioamIoamBoundsIOAM_CONTEXT_WORDS) // bytes
	// setsockoptPin is the link of the program that takes contexts.
	setsockoptPin = "setsockopt"
)

func (n Node) schema() uint32 {
	if n.ContextSchema == 0 {
		return defaultSchema
	}
	return n.ContextSchema
}

// carrying returns the encapsulation with the context of a socket in its first trace; nil without a
// trace, or for one with the loopback flag, which holds only nodes (RFC 9322).
func (e *Encapsulation) carrying() *Encapsulation {
	at := slices.IndexFunc(e.Options, func(o Option) bool { return o.Type == codec.PreallocatedTrace })
	if at < 0 || e.Flags&codec.Loopback != 0 {
		return nil
	}
	carrier := *e
	carrier.Options = slices.Clone(e.Options)
	carrier.Options[at].carries = true
	carrier.Options[at].Fields |= codec.Opaque
	return &carrier
}

// templates are the headers of a scope's packets, and behind them those of packets that carry the
// context of their socket, if the node takes any.
func (d declared) templates(s policy.Scope) ([]*template, error) {
	e := encapsulationOf(s)
	t, err := newTemplate(e, d.namespaces)
	if err != nil {
		return nil, err
	}
	carrier := e.carrying()
	if !d.node.SocketContext || carrier == nil {
		return []*template{t}, nil
	}
	second, err := newTemplate(carrier, d.namespaces)
	if err != nil {
		return nil, err
	}
	return []*template{t, second}, nil
}

// carrierFits rejects a trace without space for a required context.
func carrierFits(e *Encapsulation, sockets bool, namespaces map[uint16]Namespace) error {
	carrier := e.carrying()
	if !sockets || carrier == nil {
		return nil
	}
	_, err := newTemplate(carrier, namespaces)
	return err
}

// carriesNothing reports whether contexts of sockets are enabled without any trace for them.
func carriesNothing(p *policy.Policy) bool {
	return declaredIn(p.Host).node.SocketContext && !slices.ContainsFunc(p.Scopes, func(s policy.Scope) bool {
		e := encapsulationOf(s)
		return e != nil && e.carrying() != nil
	})
}

// canTake rejects contexts of sockets without a cgroup of all sockets.
func (p *hostPlane) canTake(n Node) error {
	if n.SocketContext && p.host.CgroupRoot == "" {
		return fault.New(fault.Testbed, "mount it: mount -t cgroup2 none /sys/fs/cgroup", "ioam.socket_context needs cgroup v2, which is not mounted")
	}
	return nil
}

// takesContexts reports whether the program is attached.
func (p *hostPlane) takesContexts() bool {
	_, err := os.Stat(filepath.Join(p.host.Pins, setsockoptPin))
	return err == nil
}

// setSockets has the sockets of all cgroups take contexts, or none. Those of other network
// namespaces do not.
func (p *hostPlane) setSockets(d *dataPlane, on bool) error {
	pin := filepath.Join(p.host.Pins, setsockoptPin)
	if !on {
		return bpffs.Remove(pin)
	}
	program, err := p.loadSetsockopt(d)
	if err != nil {
		return err
	}
	defer func() { _ = program.Close() }()
	l, err := link.LoadPinnedLink(pin, nil)
	if err == nil {
		defer func() { _ = l.Close() }()
		return programNeeds.Fault("renew the option of sockets", l.Update(program))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return bpffs.Opening(err)
	}
	if l, err = link.AttachCgroup(link.CgroupOptions{Path: p.host.CgroupRoot, Attach: ebpf.AttachCGroupSetsockopt, Program: program}); err != nil {
		return programNeeds.Fault("attach the option of sockets to "+p.host.CgroupRoot, err)
	}
	defer func() { _ = l.Close() }()
	return bpffs.Fault(l.Pin(pin))
}

// loadSetsockopt loads the program that takes contexts for this data plane's packets.
func (p *hostPlane) loadSetsockopt(d *dataPlane) (*ebpf.Program, error) {
	var s ioamIoamSettings
	if err := d.objects.IoamNode.Lookup(uint32(0), &s); err != nil {
		return nil, fmt.Errorf("read node: %w", err)
	}
	spec, err := loadSocket()
	if err != nil {
		return nil, fmt.Errorf("read the option of sockets: %w", err)
	}
	var cookie uint64
	if err := p.ns.Do(func() (err error) { cookie, err = match.ThisNetns(); return err }); err != nil {
		return nil, err
	}
	for name, value := range map[string]any{socketVarSocketNetns: cookie, socketVarSocketEpoch: s.Sockets, socketVarSocketPage: uint32(os.Getpagesize())} {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	var objects socketPrograms
	shared := map[string]*ebpf.Map{socketMapIoamSockets: d.objects.IoamSockets}
	if err := spec.LoadAndAssign(&objects, &ebpf.CollectionOptions{MapReplacements: shared, Programs: ebpf.ProgramOptions{KernelTypes: kernelTypes()}}); err != nil {
		return nil, programNeeds.Fault("load the option of sockets", err)
	}
	return objects.IoamSetsockopt, nil
}
