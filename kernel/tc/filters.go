// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

var filterKinds = map[string]kind{
	"u32":      {create: flagged(u32Flags, u32Pcnt)},
	"fw":       {create: asIs},
	"flower":   {create: flagged(flowerFlags, flowerInHw)},
	"matchall": {create: flagged(matchallFlags, matchallPcnt)},
	"basic":    {create: without(basicPcnt)},
	"bpf":      {create: flagged(bpfFlagsGen, bpfTag)},
}

// actions is by kind the attributes that hold actions and police.
var actions = map[string][]uint16{"u32": {6, 7}, "fw": {2, 4}, "flower": {3}, "matchall": {2}, "basic": {3, 4}, "bpf": {1, 2}}

// Attributes of filters (linux/pkt_cls.h).
const (
	u32Divisor, u32Pcnt, u32Flags = 4, 9, 11
	flowerFlags, flowerInHw       = 22, 86
	matchallFlags, matchallPcnt   = 3, 4
	basicPcnt                     = 5

	bpfFD, bpfName, bpfFlags, bpfFlagsGen, bpfTag, bpfID = 6, 7, 8, 9, 10, 11

	flagsTaken = 1<<0 | 1<<1 // TCA_CLS_FLAGS_SKIP_HW, TCA_CLS_FLAGS_SKIP_SW; the other flags are results
)

func (r Raw) hasActions() (found bool) {
	_ = attributes(r.Options, func(kind uint16, value []byte) error {
		found = found || slices.Contains(actions[r.Kind], kind) && len(value) > 0
		return nil
	})
	return found
}

// flagged removes counters, and flags that a create does not accept.
func flagged(flags uint16, counters ...uint16) func(uint16, []byte) ([]byte, bool) {
	return func(kind uint16, value []byte) ([]byte, bool) {
		if kind == flags && len(value) >= 4 {
			taken := binary.NativeEndian.Uint32(value) & flagsTaken
			return words(taken), taken != 0
		}
		return value, !slices.Contains(counters, kind)
	}
}

// HashTable reports whether a u32 filter is a hash table, and whether it is the root table of its
// priority.
func (r Raw) HashTable() (table, root bool) {
	_ = attributes(r.Options, func(kind uint16, _ []byte) error {
		table = table || r.Kind == "u32" && kind == u32Divisor
		return nil
	})
	return table, table && r.Handle >= 0x80000000
}

// BPF describes the program of a bpf filter.
type BPF struct {
	Name   string
	ID     uint32 // 0 for a classic program with its instructions in the options
	Direct bool   // its return value is the verdict
}

// BPF reads a filter that was dumped.
func (r Raw) BPF() (b BPF) {
	_ = attributes(r.Options, func(kind uint16, value []byte) error {
		switch {
		case kind == bpfName:
			b.Name = unix.ByteSliceToString(value)
		case kind == bpfID && len(value) >= 4:
			b.ID = binary.NativeEndian.Uint32(value)
		case kind == bpfFlags && len(value) >= 4:
			b.Direct = binary.NativeEndian.Uint32(value)&1 != 0
		}
		return nil
	})
	return b
}

// WithProgram returns a bpf filter with the program of this descriptor.
func (r Raw) WithProgram(fd int) Raw {
	r.Options = rebuild(r.Options, without(bpfID, bpfTag, bpfFD))
	r.Options = attribute(r.Options, bpfFD, words(uint32(fd)))
	return r
}

// NewBPF is a direct-action filter for all protocols.
func NewBPF(parent Handle, priority uint16, name string, fd int) Raw {
	const direct, handle = 1, 1
	options := attribute(nil, bpfFD, words(uint32(fd)))
	options = attribute(options, bpfName, append([]byte(name), 0))
	return Raw{Kind: "bpf", Parent: parent, Handle: handle, Info: uint32(priority)<<16 | allProtocols,
		Options: attribute(options, bpfFlags, words(direct))}
}

// ClassifierBPF returns a filter for all protocols with a program, by id, that returns the class,
// or 0 for none.
func ClassifierBPF(parent Handle, priority uint16, name string, id uint32) Raw {
	const handle = 1
	options := attribute(nil, bpfName, append([]byte(name), 0))
	return Raw{Kind: "bpf", Parent: parent, Handle: handle, Info: uint32(priority)<<16 | allProtocols,
		Options: attribute(options, bpfID, words(id))}
}
