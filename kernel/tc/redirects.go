// SPDX-License-Identifier: Apache-2.0

package tc

import "encoding/binary"

// Redirect is the mirred action of a filter.
type Redirect struct {
	To       int  // index of the device
	Received bool // there as if they were received; else sent by it, through its qdisc
	Copy     bool // the original packets continue
}

// Actions by kind of filter, and its flags (linux/pkt_cls.h).
var (
	actionLists = map[string]uint16{"u32": 7, "fw": 4, "flower": 3, "matchall": 2, "basic": 3, "bpf": 1}
	filterFlags = map[string]uint16{"u32": u32Flags, "flower": flowerFlags, "matchall": matchallFlags, "bpf": bpfFlagsGen}
)

const (
	actionKind, actionOptions = 1, 2 // TCA_ACT_KIND, TCA_ACT_OPTIONS
	mirredParms               = 2    // TCA_MIRRED_PARMS
	inHardware                = 1 << 2
)

// Redirects are the actions mirred of a filter as [Conn.Dump] has it. Those to a block of devices
// are to the device 0.
func (r Raw) Redirects() (all []Redirect) {
	_ = attributes(r.Options, func(kind uint16, list []byte) error {
		if kind != actionLists[r.Kind] {
			return nil
		}
		return attributes(list, func(_ uint16, action []byte) error {
			if to, is := redirectOf(action); is {
				all = append(all, to)
			}
			return nil
		})
	})
	return all
}

func redirectOf(action []byte) (to Redirect, is bool) {
	mirred := false
	_ = attributes(action, func(kind uint16, value []byte) error {
		switch kind {
		case actionKind:
			mirred = string(value) == "mirred\x00"
		case actionOptions:
			return attributes(value, func(kind uint16, parms []byte) error {
				// struct tc_mirred: five words of tc_gen, eaction, ifindex
				if kind == mirredParms && len(parms) >= 28 {
					what := binary.NativeEndian.Uint32(parms[20:]) // egress redirect, egress mirror, ingress redirect, ingress mirror
					to = Redirect{To: int(binary.NativeEndian.Uint32(parms[24:])), Received: what > 2, Copy: what%2 == 0}
					is = true
				}
				return nil
			})
		}
		return nil
	})
	return to, is && mirred
}

// InHardware reports whether the device executes a dumped filter.
func (r Raw) InHardware() (hardware bool) {
	_ = attributes(r.Options, func(kind uint16, value []byte) error {
		if kind == filterFlags[r.Kind] && len(value) >= 4 {
			hardware = binary.NativeEndian.Uint32(value)&inHardware != 0
		}
		return nil
	})
	return hardware
}
