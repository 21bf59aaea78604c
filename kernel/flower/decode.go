// SPDX-License-Identifier: Apache-2.0

package flower

import (
	"math/bits"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Filter is a filter as dumped by the kernel.
type Filter struct {
	Kind      string // "flower", or another's
	Chain     uint32
	Priority  uint16
	EtherType uint16 // of matching frames; 0x8100 for tagged ones
	Handle    uint32
	Dst       netip.Prefix // the zero value if the destination does not matter
	Mode      uint32       // [SkipHardware], [SkipSoftware] or 0
	InHW      bool         // in hardware
	Goto      uint32       // chain of its last action; 0 for none
	Forward   *Forward     // target of its actions
	Action    uint32       // index of its last action, if that is a gact
	Shared    bool         // other filters share the action and its counter
	Packets   uint64       // of its last action
	Octets    uint64
}

// filter decodes a filter; ok is false for other objects such as the head of a chain.
func filter(b []byte) (f Filter, ok bool) {
	if len(b) < 20 {
		return f, false
	}
	info := native.Uint32(b[16:])
	f.Handle, f.Priority, f.EtherType = native.Uint32(b[8:]), uint16(info>>16), uint16(info)<<8|uint16(info)>>8
	var options []byte
	each(b[20:], func(kind uint16, value []byte) {
		switch kind {
		case tcaKind:
			f.Kind = unix.ByteSliceToString(value)
		case tcaChain:
			if len(value) == 4 {
				f.Chain = native.Uint32(value)
			}
		case tcaOptions:
			options = value
		}
	})
	if f.Handle == 0 {
		return f, false
	}
	if f.Kind == "flower" {
		f.read(options)
	}
	return f, true
}

// read decodes the attributes of kind flower.
func (f *Filter) read(options []byte) {
	const inHW = 4
	var address, mask []byte
	each(options, func(kind uint16, value []byte) {
		switch kind {
		case keyFlags:
			if len(value) == 4 {
				flags := native.Uint32(value)
				f.Mode, f.InHW = flags&(SkipHardware|SkipSoftware), flags&inHW != 0
			}
		case keyIPv4Dst, keyIPv6Dst:
			address = value
		case keyIPv4DstMask, keyIPv6DstMask:
			mask = value
		case flowerAct:
			each(value, func(_ uint16, value []byte) { f.action(value) })
		}
	})
	if a, ok := netip.AddrFromSlice(address); ok {
		length := 0
		for _, b := range mask {
			length += bits.OnesCount8(b)
		}
		f.Dst = netip.PrefixFrom(a, length)
	}
}

// action decodes an action; the last one counts the packets.
func (f *Filter) action(b []byte) {
	const actStats, basic, packets64 = 4, 1, 8
	name, options := "", []byte(nil)
	each(b, func(kind uint16, value []byte) {
		switch kind {
		case actKind:
			name = unix.ByteSliceToString(value)
		case actOptions:
			options = value
		case actStats:
			each(value, func(kind uint16, value []byte) {
				switch {
				case kind == basic && len(value) >= 12:
					f.Octets, f.Packets = native.Uint64(value), uint64(native.Uint32(value[8:]))
				case kind == packets64 && len(value) == 8:
					f.Packets = native.Uint64(value)
				}
			})
		}
	})
	each(options, func(kind uint16, value []byte) { f.option(name, kind, value) })
}

// option decodes the parameters of an action.
func (f *Filter) option(action string, kind uint16, value []byte) {
	const parms, vlanID, peditParms, genericSize = 2, 3, 4, 20
	out := func() *Forward {
		if f.Forward == nil {
			f.Forward = &Forward{}
		}
		return f.Forward
	}
	switch {
	case action == "gact" && kind == parms && len(value) >= genericSize:
		f.Action, f.Shared = native.Uint32(value), native.Uint32(value[16:]) > 1
		if what := native.Uint32(value[8:]); what&^uint32(chainMask) == gotoChain {
			f.Goto = what & chainMask
		}
	case action == "mirred" && kind == parms && len(value) >= genericSize+8:
		out().Device = int(native.Uint32(value[genericSize+4:]))
	case action == "vlan" && kind == vlanID && len(value) == 2:
		out().VLAN = native.Uint16(value)
	case action == "pedit" && kind == peditParms:
		const keysAt, keySize = genericSize + 4, 24
		addresses := [12]byte{}
		for i := range 3 { // the link-layer addresses: see edit
			if at := keysAt + i*keySize + 4; at+4 <= len(value) {
				copy(addresses[4*i:], value[at:at+4])
			}
		}
		copy(out().Dst[:], addresses[:6])
		copy(out().Src[:], addresses[6:])
	}
}
