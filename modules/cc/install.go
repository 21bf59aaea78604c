// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/internal/nearest"
	"weir/kernel/bpferr"
	"weir/kernel/probe"
)

// Options holds the options of an installation. The zero value is the default.
type Options struct {
	Name         string // name for sockets, at most 15 of a-z, 0-9 and _; "" means weir_ and the algorithm
	Unrestricted bool   // any user may choose it, and a child namespace may have it as its default
	Trace        bool   // report every step of every connection to [Installed.Trace]; costs about a microsecond a packet
}

// Installed is a registered congestion control. Close ends it, and the scopes attached to it,
// unless it was pinned.
type Installed struct {
	name   string
	kind   algorithm
	link   link.Link
	events *ebpf.Map // nil without tracing
	scopes []*assigner
}

// Flags of the kernel's struct tcp_congestion_ops.
const (
	flagUnrestricted = 1 // TCP_CONG_NON_RESTRICTED: every user may choose it
	flagNeedsECN     = 2 // TCP_CONG_NEEDS_ECN: its sockets negotiate ECN regardless of net.ipv4.tcp_ecn
)

// Install registers an algorithm ("dctcp") with the kernel. The error is a fault: Usage for an
// unknown algorithm or a name that is taken, Testbed for a kernel without BPF struct_ops,
// Permission without CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN.
func Install(name string, o Options) (*Installed, error) {
	chosen, known := algorithmOf(name)
	if !known {
		return nil, fault.New(fault.Usage, "the algorithms are: "+strings.Join(Algorithms(), ", "), "%q is not an algorithm%s", name, nearest.Hint(name, Algorithms()))
	}
	if o.Name == "" {
		o.Name = DefaultName(name)
	}
	if err := checkName(o.Name); err != nil {
		return nil, err
	}
	if taken, err := probe.CongestionControls(); err == nil && slices.Contains(taken, o.Name) {
		return nil, isTaken(o.Name)
	}
	if err := supported(); err != nil {
		return nil, err
	}
	return register(chosen, o)
}

// supported returns the missing kernel feature for BPF congestion controls, or nil.
func supported() error {
	err := errors.Join(probe.BTF(), probe.ProgramType(ebpf.StructOps))
	if err == nil {
		err = probe.CongestionOps() // a link registers them, which came later than the programs
	}
	if err != nil {
		return fault.New(fault.Of(err), advice(err), "congestion controls in BPF: %w", err)
	}
	return nil
}

func checkName(name string) error {
	if !regexp.MustCompile(`^[a-z0-9_]{1,15}$`).MatchString(name) {
		return fault.New(fault.Usage, "use 1 to 15 of a-z, 0-9 and _", "%q cannot name a congestion control", name)
	}
	return nil
}

func isTaken(name string) error {
	if inForce(Pins, name) {
		return fault.New(fault.Usage, "sockets can use it already; weir release ends it", "the active policy has installed the congestion control %s", name)
	}
	return fault.New(fault.Usage, "remove it first: weir cc remove "+name, "the congestion control %s is installed already", name)
}

// advice returns the advice of err, or the requirement of struct_ops if err carries none.
func advice(err error) string {
	if fault.Of(err) == fault.Permission {
		return fault.Advice(err)
	}
	return "use " + programNeeds.Kernel
}

// register loads the programs and hands them to the kernel's TCP.
func register(chosen algorithm, o Options) (*Installed, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, programNeeds.Fault("lift memory lock limit", err)
	}
	spec, err := chosen.load()
	if err != nil {
		return nil, fmt.Errorf("read congestion control: %w", err)
	}
	if err := prepare(spec, chosen, o); err != nil {
		return nil, err
	}
	loaded, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, programNeeds.Fault("load congestion control", err)
	}
	defer loaded.Close()
	registered, err := link.AttachStructOps(link.StructOpsOptions{Map: loaded.Maps[chosen.ops]})
	if errors.Is(err, unix.EEXIST) {
		return nil, isTaken(o.Name)
	}
	if err != nil {
		return nil, programNeeds.Fault("register congestion control", err)
	}
	installed := &Installed{name: o.Name, kind: chosen, link: registered}
	if o.Trace {
		installed.events = loaded.Maps[chosen.traces.events]
		delete(loaded.Maps, chosen.traces.events) // Close must leave it open
	}
	return installed, nil
}

// prepare writes the options into the object.
func prepare(spec *ebpf.CollectionSpec, chosen algorithm, o Options) error {
	ops := spec.Maps[chosen.ops]
	layout, ok := ops.Value.(*btf.Struct)
	if !ok || len(ops.Contents) != 1 {
		return fmt.Errorf("read congestion control: %s has no layout", chosen.ops)
	}
	value := ops.Contents[0].Value.([]byte)
	for _, member := range layout.Members {
		switch at := member.Offset.Bytes(); member.Name {
		case "name":
			name := value[at : at+16]
			clear(name)
			copy(name, o.Name)
		case "flags":
			binary.NativeEndian.PutUint32(value[at:], chosen.flags(o))
		}
	}
	if chosen.tune != nil {
		if err := chosen.tune(spec); err != nil {
			return fmt.Errorf("set tunables: %w", err)
		}
	}
	if !o.Trace {
		spec.Maps[chosen.traces.events].MaxEntries = uint32(unix.Getpagesize()) // the smallest there is
		return nil
	}
	if err := spec.Variables[chosen.traces.constant].Set(uint8(1)); err != nil {
		return fmt.Errorf("switch tracing on: %w", err)
	}
	return nil
}

// flags returns the kernel flags of the control.
func (a algorithm) flags(o Options) (flags uint32) {
	if o.Unrestricted {
		flags |= flagUnrestricted
	}
	if a.needsECN {
		flags |= flagNeedsECN
	}
	return flags
}

// programNeeds lists the requirements of the programs.
var programNeeds = bpferr.Needs{Capabilities: bpferr.Standard, Kernel: "Linux 6.4 or later with CONFIG_BPF_JIT and CONFIG_DEBUG_INFO_BTF"}

// Name returns the name of the congestion control for sockets.
func (i *Installed) Name() string { return i.name }

// Close lets go of the congestion control and its scopes. Without a pin they end here; connections
// that use it keep it.
func (i *Installed) Close() error {
	var all []error
	for _, s := range i.scopes {
		all = append(all, s.close())
	}
	i.scopes = nil
	all = append(all, i.link.Close())
	if i.events != nil {
		all = append(all, i.events.Close())
	}
	return errors.Join(all...)
}
