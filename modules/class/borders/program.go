// SPDX-License-Identifier: Apache-2.0

package borders

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"weir/kernel/bpferr"
	"weir/kernel/bpfmap"
	"weir/kernel/device"
)

// Directions of border.h, and the value for no DSCP.
const (
	in       = 0
	out      = 1
	keepDSCP = 64
)

// sideBits is the number of bits in a key before the address.
const sideBits = 32

// load loads the programs of a border for a device with a link-layer header of header bytes. They
// continue the given counters, if any.
func (t *Treatment) load(header int, counters *ebpf.Map) (*borderObjects, error) {
	spec, err := loadBorder()
	if err != nil {
		return nil, fmt.Errorf("read border's programs: %w", err)
	}
	settings := borderBorderSettings{Header: uint32(header), Translate: t.translations()}
	if t.Shadow {
		settings.Shadow = 1
	}
	if n := len(t.From) + len(t.To); n > 0 {
		settings.Rules = 1
		spec.Maps[borderMapBorderRules].MaxEntries = uint32(n)
	}
	if err := spec.Variables[borderVarBorderConfig].Set(settings); err != nil {
		return nil, fmt.Errorf("set border's programs: %w", err)
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, programNeeds.Fault("lift memory lock limit", err)
	}
	var options ebpf.CollectionOptions
	if counters != nil {
		options.MapReplacements = map[string]*ebpf.Map{borderMapBorderCounters: counters}
	}
	objects := &borderObjects{}
	if err := spec.LoadAndAssign(objects, &options); err != nil {
		return nil, programNeeds.Fault("load border's programs", err)
	}
	for side, rules := range [][]Rule{t.From, t.To} {
		for _, rule := range rules {
			key, value := rule.raw(uint32(side))
			if err := bpfmap.Put(objects.BorderRules, key, value); err != nil {
				return nil, errors.Join(programNeeds.Fault("set prefix "+rule.Prefix.String(), err), objects.Close())
			}
		}
	}
	return objects, nil
}

// raw is the rule as the programs read it.
func (r Rule) raw(side uint32) (borderBorderPrefix, borderBorderRule) {
	octets, bits, version := r.Prefix.Addr().AsSlice(), r.Prefix.Bits(), uint32(6)
	if r.Prefix.Addr().Is4() {
		version = 4
	}
	key := borderBorderPrefix{Length: uint32(sideBits + bits), Side: side + version}
	for i := range len(octets) / 4 {
		key.Address[i] = binary.NativeEndian.Uint32(octets[4*i:])
	}
	value := borderBorderRule{Dscp: uint32(r.DSCP), Length: uint32(bits)}
	if r.Class == keep {
		value.Dscp = keepDSCP
	}
	return key, value
}

// at is the program of a hook.
func (o *borderPrograms) at(hook device.Hook) *ebpf.Program {
	if hook == device.Ingress {
		return o.BorderIn
	}
	return o.BorderOut
}

// countersOf returns the counters of an attached program; nil for another version of Weir.
func countersOf(a *device.Attachment) (*ebpf.Map, error) {
	spec, err := loadBorder()
	if err != nil {
		return nil, fmt.Errorf("read border's programs: %w", err)
	}
	return a.Map(spec.Maps[borderMapBorderCounters])
}

// programNeeds lists the requirements of the programs.
var programNeeds = bpferr.Needs{Capabilities: bpferr.Standard, Kernel: "Linux 6.1 or later with CONFIG_BPF_JIT"}
