// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
)

// Dumped objects differ from create requests, by kind as listed here. All other options of the
// kinds below are dumped byte by byte as requested; the tests of kernel/device verify each kind.
//
//	htb                options contain a packet counter, and a version that the kernel rejects
//	fq_codel, codel    times are stored in units of 1.024 µs and dumped rounded down, so they drift
//	fq                 a disabled threshold is dumped as its lower 32 bits
//	sfq                options contain drop counters
//	filters            contain hit counters and the state of the hardware
//	bpf                a program is dumped by its id and requested by a descriptor: [Raw.WithProgram]

// kind describes a kind of qdisc or filter.
type kind struct {
	create func(kind uint16, value []byte) (_ []byte, keep bool) // of one attribute
	whole  func(options []byte) []byte                           // of options that are a structure
	class  func(kind uint16, value []byte) (_ []byte, keep bool) // of a class's attribute; nil: made with the qdisc
	hidden func(options []byte) string                           // state missing from the dump
}

// asIs keeps an attribute unchanged.
func asIs(_ uint16, value []byte) ([]byte, bool) { return value, true }

// without leaves out attributes.
func without(list ...uint16) func(uint16, []byte) ([]byte, bool) {
	return func(kind uint16, value []byte) ([]byte, bool) {
		return value, !slices.Contains(list, kind)
	}
}

var qdiscKinds = map[string]kind{
	"pfifo": {}, "bfifo": {}, "pfifo_head_drop": {}, "pfifo_fast": {}, "prio": {}, "multiq": {}, "mq": {}, "noqueue": {},
	"clsact": {}, "ingress": {},
	"tbf":      {create: asIs},
	"htb":      {create: createHTB, class: createHTBClass},
	"hfsc":     {class: asIs},
	"drr":      {create: asIs, class: asIs},
	"ets":      {create: asIs},
	"cake":     {create: asIs},
	"fq":       {create: createFq},
	"fq_codel": {create: codelTimes(1, 3, 7)}, // target, interval, ce_threshold
	"codel":    {create: codelTimes(1, 3, 5)},
	"sfq":      {whole: createSfq},
	"netem":    {whole: asDumped, hidden: hiddenNetem},
	"red":      {hidden: func([]byte) string { return "the dump lacks its table of idle times" }},
	"gred":     {hidden: func([]byte) string { return "the dump lacks its table of idle times" }},
	"choke":    {hidden: func([]byte) string { return "the dump lacks its table of idle times" }},
}

// HasClasses reports whether a qdisc's classes are created one by one; those of other qdiscs are
// created with the qdisc.
func HasClasses(qdisc string) bool { return qdiscKinds[qdisc].class != nil }

// Creatable converts a dumped object to a create request without counters. Unknown kinds stay
// unchanged.
func (r Raw) Creatable(sort Message) Raw {
	known := qdiscKinds[r.Kind]
	change := known.create
	switch {
	case sort == ClassMessage:
		change = known.class
	case sort == FilterMessage:
		change = filterKinds[r.Kind].create
	}
	if r.Options == nil {
		return r
	}
	if sort == QdiscMessage && known.whole != nil {
		r.Options = known.whole(r.Options)
	} else if change != nil {
		r.Options = rebuild(r.Options, change)
	}
	return r
}

// Hidden returns why an object cannot be recreated exactly: an unknown kind, or state missing from
// the dump. "" means that it can.
func (r Raw) Hidden(sort Message) string {
	table := qdiscKinds
	if sort == FilterMessage {
		table = filterKinds
	}
	known, ok := table[r.Kind]
	switch {
	case !ok:
		return "the dump of this kind may be incomplete"
	case r.Hardware && r.Kind != "mq":
		return "it is done by the device"
	case stabHasTable(r.Stab):
		return "the dump lacks its table of sizes"
	case sort == FilterMessage && r.hasActions():
		return "it has actions"
	case sort == QdiscMessage && known.hidden != nil:
		return known.hidden(r.Options)
	}
	return ""
}

// stabHasTable checks tsize of struct tc_sizespec.
func stabHasTable(stab []byte) (found bool) {
	const base, tsizeAt = 1, 20
	_ = attributes(stab, func(kind uint16, value []byte) error {
		found = found || kind == base && len(value) >= tsizeAt+4 && binary.NativeEndian.Uint32(value[tsizeAt:]) > 0
		return nil
	})
	return found
}

// rebuild changes options attribute by attribute and keeps flags in their types. It keeps options
// without attributes.
func rebuild(options []byte, change func(uint16, []byte) ([]byte, bool)) []byte {
	built, rest := []byte{}, options
	for len(rest) >= 4 {
		length := int(binary.NativeEndian.Uint16(rest))
		if length < 4 || length > len(rest) {
			return options
		}
		name := binary.NativeEndian.Uint16(rest[2:])
		if value, keep := change(name&^(nested|0x4000), append([]byte{}, rest[4:length]...)); keep {
			built = attribute(built, name, value)
		}
		rest = rest[min((length+3)&^3, len(rest)):]
	}
	return built
}

func asDumped(options []byte) []byte { return options }

// createHTB changes struct tc_htb_glob: version, rate2quantum, defcls, debug, direct_pkts.
func createHTB(kind uint16, value []byte) ([]byte, bool) {
	const initial = 2
	if kind == initial && len(value) >= 20 {
		copy(value, words(3))
		copy(value[12:], words(0, 0))
	}
	return value, true
}

// createHTBClass leaves out of struct tc_htb_opt the level, which the kernel counts.
func createHTBClass(kind uint16, value []byte) ([]byte, bool) {
	const parms, levelAt = 1, 36
	if kind == parms && len(value) >= levelAt+4 {
		copy(value[levelAt:], words(0))
	}
	return value, true
}

// codelTimes returns the lowest times that the kernel stores in the same way.
func codelTimes(times ...uint16) func(uint16, []byte) ([]byte, bool) {
	return func(kind uint16, value []byte) ([]byte, bool) {
		if slices.Contains(times, kind) && len(value) == 4 {
			return words(codelTime(binary.NativeEndian.Uint32(value))), true
		}
		return value, true
	}
}

// codelTime returns the lowest µs that the kernel stores in the same number of 1024 ns units.
func codelTime(dumped uint32) uint32 {
	kept := (uint64(dumped)*1000 + 1023) / 1024
	return uint32(min((kept*1024+999)/1000, math.MaxUint32))
}

// createFq omits a disabled threshold: all ones in ns; the dump contains the lower half in µs.
func createFq(kind uint16, value []byte) ([]byte, bool) {
	const ceThreshold = 12
	off := words(uint32(uint64(math.MaxUint64) / 1000 & math.MaxUint32))
	return value, kind != ceThreshold || !bytes.Equal(value, off)
}

// createSfq clears struct tc_sfqred_stats at the end of struct tc_sfq_qopt_v1.
func createSfq(options []byte) []byte {
	const statsAt, statsEnd = 48, 72
	options = append([]byte{}, options...)
	if len(options) >= statsEnd {
		clear(options[statsAt:statsEnd])
	}
	return options
}

// hiddenNetem reports options that may hide a distribution table, which is not dumped.
func hiddenNetem(options []byte) (why string) {
	const sizeofQopt, jitter64, slot = 24, 11, 12
	if len(options) < sizeofQopt {
		return "its options end early"
	}
	_ = attributes(options[sizeofQopt:], func(kind uint16, value []byte) error {
		varies := kind == jitter64 && len(value) == 8 || kind == slot && len(value) >= 40
		if varies && binary.NativeEndian.Uint64(value[len(value)-8:]) != 0 {
			why = "the dump lacks the distribution of its delay"
		}
		return nil
	})
	return why
}
