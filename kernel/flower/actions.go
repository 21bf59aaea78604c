// SPDX-License-Identifier: Apache-2.0

package flower

// generic is struct tc_gen, which carries the verdict of an action.
func generic(action uint32) []byte {
	b := make([]byte, 20)
	native.PutUint32(b[8:], action)
	return b
}

// action appends the n-th action.
func action(b []byte, n uint16, kind string, options func([]byte) []byte) []byte {
	return nested(b, n, func(b []byte) []byte {
		b = attribute(b, actKind, append([]byte(kind), 0))
		return nested(b, actOptions, options)
	})
}

// uncounted appends the flag for one set of counters instead of per-CPU counters. Software packets
// are not counted there.
func uncounted(b []byte) []byte {
	const flags, noPerCPU = 7, 1 // TCA_ACT_FLAGS, as value and selector
	return attribute(b, flags, append(word(noPerCPU), word(noPerCPU)...))
}

// actions appends the actions of a rule.
func (r *Rule) actions(b []byte, mode uint32) []byte {
	if r.Forward == nil {
		what := uint32(actOK)
		if r.Goto != 0 {
			what = gotoChain | r.Goto
		}
		n := uint16(1)
		if r.Guard != 0 {
			b = action(b, n, "bpf", r.guard)
			n++
		}
		parms := generic(what)
		native.PutUint32(parms, r.Action)
		return nested(b, n, func(b []byte) []byte {
			b = attribute(b, actKind, []byte("gact\x00"))
			if mode&SkipSoftware != 0 {
				b = uncounted(b)
			}
			return nested(b, actOptions, func(b []byte) []byte { return attribute(b, 2, parms) })
		})
	}
	n, f := uint16(0), r.Forward
	next := func(kind string, options func([]byte) []byte) {
		n++
		b = action(b, n, kind, options)
	}
	if f.Pop || f.Push || f.Modify {
		next("vlan", f.tag)
	}
	next("pedit", func(b []byte) []byte { return f.edit(b, r.IPv6) })
	if !r.IPv6 {
		const ip4 = 1
		next("csum", func(b []byte) []byte { return attribute(b, 1, append(generic(actPipe), word(ip4)...)) })
	}
	const redirect = 1
	next("mirred", func(b []byte) []byte {
		return attribute(b, 2, append(append(generic(actStolen), word(redirect)...), word(uint32(f.Device))...))
	})
	return b
}

// guard appends the action bpf.
func (r *Rule) guard(b []byte) []byte {
	const parms, descriptor, name = 2, 5, 6
	b = attribute(b, parms, generic(actPipe))
	b = attribute(b, descriptor, word(uint32(r.Guard)))
	return attribute(b, name, []byte("weir_lease\x00"))
}

// tag appends the action vlan. The priority becomes 0, as in the kernel's forwarding.
func (f *Forward) tag(b []byte) []byte {
	const pop, push, modify = 1, 2, 3
	const parms, id, protocol, priority = 2, 3, 4, 6
	what := uint32(pop)
	switch {
	case f.Push:
		what = push
	case f.Modify:
		what = modify
	}
	b = attribute(b, parms, append(generic(actPipe), word(what)...))
	if what != pop {
		b = attribute(b, id, native.AppendUint16(nil, f.VLAN))
		b = attribute(b, protocol, short(typeVLAN))
		b = attribute(b, priority, []byte{0})
	}
	return b
}

// edit appends the action pedit: it sets both link-layer addresses and adds 255 to the TTL, which
// decrements it.
func (f *Forward) edit(b []byte, ipv6 bool) []byte {
	const parmsEx, keysEx, keyEx, htype, command = 4, 5, 6, 1, 2
	const ethernet, ip4, ip6, set, add = 1, 2, 3, 0, 1
	addresses := append(append([]byte{}, f.Dst[:]...), f.Src[:]...)
	const keys = 4
	parms := append(generic(actPipe), keys, 0, 0, 0)
	key := func(mask, value []byte, offset uint32) {
		k := make([]byte, 24)
		copy(k, mask)
		copy(k[4:], value)
		native.PutUint32(k[8:], offset)
		parms = append(parms, k...)
	}
	for i := range uint32(3) {
		key(make([]byte, 4), addresses[4*i:4*i+4], 4*i)
	}
	kind := uint16(ip4)
	if ipv6 {
		kind = ip6
		key([]byte{255, 255, 255, 0}, []byte{0, 0, 0, 255}, 4) // hop limit
	} else {
		key([]byte{0, 255, 255, 255}, []byte{255, 0, 0, 0}, 8) // TTL
	}
	b = nested(b, keysEx, func(b []byte) []byte {
		for i := range keys {
			b = nested(b, keyEx, func(b []byte) []byte {
				what, how := uint16(ethernet), uint16(set)
				if i == keys-1 {
					what, how = kind, add
				}
				return attribute(attribute(b, htype, native.AppendUint16(nil, what)), command, native.AppendUint16(nil, how))
			})
		}
		return b
	})
	return attribute(b, parmsEx, parms)
}
