// SPDX-License-Identifier: Apache-2.0

package node

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
	"weir/kernel/cgroup"
	"weir/modules/ioam/codec"
)

// Level and name of the socket option for trace contexts.
const (
	SocketLevel   = int(ioamIoamSocketOptionIOAM_SOCKET_LEVEL)
	SocketContext = int(ioamIoamSocketOptionIOAM_SOCKET_CONTEXT)
)

const (
	// defaultSchema is "W3C", the schema of opaque state that is a trace context.
	defaultSchema = 0x573343
	contextState  = 4 * int(ioamIoamBoundsIOAM_CONTEXT_WORDS) // bytes
	// setsockoptPin is the pinned link of the socket option's program.
	setsockoptPin = "setsockopt"
)

// Schema returns the schema of opaque state that is the context of a socket.
func (n Node) Schema() uint32 {
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

// templates returns the headers for packets of a scope. If sockets may have a context, the second
// template is for packets that carry one.
func (d Config) templates(s policy.Scope) ([]*template, error) {
	e := EncapsulationOf(s)
	t, err := newTemplate(e, d.Namespaces)
	if err != nil {
		return nil, err
	}
	carrier := e.carrying()
	if !d.Node.SocketContext || carrier == nil {
		return []*template{t}, nil
	}
	second, err := newTemplate(carrier, d.Namespaces)
	if err != nil {
		return nil, err
	}
	return []*template{t, second}, nil
}

// Carries reports whether some trace can carry the context of a socket.
func (e *Encapsulation) Carries() bool { return e.carrying() != nil }

// CheckCarrier rejects a trace without space for a required context.
func CheckCarrier(e *Encapsulation, sockets bool, namespaces map[uint16]Namespace) error {
	carrier := e.carrying()
	if !sockets || carrier == nil {
		return nil
	}
	_, err := newTemplate(carrier, namespaces)
	return err
}

// canTake rejects socket contexts if no cgroup contains all sockets.
func (p *hostPlane) canTake(n Node) error {
	if n.SocketContext && p.host.CgroupRoot == "" {
		return fault.New(fault.Testbed, "mount it: mount -t cgroup2 none /sys/fs/cgroup", "ioam.socket_context needs cgroup v2, which is not mounted")
	}
	if n.SocketContext {
		return cgroup.Attachable(p.host.CgroupRoot, ebpf.AttachCGroupSetsockopt)
	}
	return nil
}

// takesContexts reports whether the program is attached.
func (p *hostPlane) takesContexts() bool {
	_, err := os.Stat(filepath.Join(p.host.Pins, setsockoptPin))
	return err == nil
}

// setSockets attaches the socket option's program to all cgroups, or detaches it. Sockets of other
// network namespaces have no such option.
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
	if l, err = cgroup.AttachProgram(p.host.CgroupRoot, ebpf.AttachCGroupSetsockopt, program); err != nil {
		return programNeeds.Fault("attach the option of sockets to "+p.host.CgroupRoot, err)
	}
	defer func() { _ = l.Close() }()
	return bpffs.Fault(l.Pin(pin))
}

// loadSetsockopt loads the socket option's program for this data plane.
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
