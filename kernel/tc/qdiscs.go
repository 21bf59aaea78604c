// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/internal/units"
)

const nested = unix.NLA_F_NESTED

// AddPfifo makes a first-in-first-out queue of limit packets.
func (c *Conn) AddPfifo(dev string, at Place, limit uint32) error {
	return c.Add("pfifo", dev, at, words(limit))
}

// AddBfifo adds a first-in-first-out queue of limit bytes.
func (c *Conn) AddBfifo(dev string, at Place, limit units.ByteSize) error {
	return c.Add("bfifo", dev, at, words(clamp(uint64(limit))))
}

// AddClsact makes the hook for classifiers at a device's ingress and egress.
func (c *Conn) AddClsact(dev string) error {
	return c.Add("clsact", dev, Place{Parent: Clsact, Handle: MakeHandle(0xffff, 0)}, nil)
}

// TBFSpec describes a token bucket filter. Sizes are in bytes.
type TBFSpec struct {
	Rate     units.BitRate
	Burst    units.ByteSize // of the bucket; a packet larger than it is split or dropped
	Limit    units.ByteSize // that may wait
	Overhead uint16         // bytes per packet beyond its own
}

// AddTBF makes a token bucket filter; it splits super-packets that are larger than its bucket.
func (c *Conn) AddTBF(dev string, at Place, spec TBFSpec) error {
	if spec.Rate < 8 || spec.Burst == 0 || spec.Limit == 0 {
		return fault.New(fault.Usage, "give all three", "add tbf to %s: it needs a rate, a burst and a limit", dev)
	}
	const burst = 6
	octets := uint64(spec.Rate) / 8
	b := tbfOptions(octets, spec.Overhead, spec.Limit, ticks(uint64(spec.Burst), octets))
	b = attribute(b, burst, words(clamp(uint64(spec.Burst)))) // in bytes, which override the ticks
	return c.Add("tbf", dev, at, b)
}

const tbfParms, tbfRate64 = 1, 4

func tbfOptions(octets uint64, overhead uint16, limit units.ByteSize, buffer uint32) []byte {
	// struct tc_tbf_qopt: rate, peak rate, limit, buffer, mtu.
	qopt := ratespec(octets, overhead)
	qopt = append(qopt, ratespec(0, 0)...)
	qopt = append(qopt, words(clamp(uint64(limit)), buffer, 0)...)
	b := attribute(nil, tbfParms, qopt)
	if octets > math.MaxUint32 {
		b = attribute(b, tbfRate64, long(octets))
	}
	return b
}

// splitTicks is the burst time of a splitter: the minimum of the kernel, 64 ns, too short for two
// packets.
const splitTicks, tickNanoseconds = 1, 64

// SplitterRaw describes a first-in-first-out queue of limit bytes that splits super-packets into
// frames of up to frame bytes and drops longer ones: a token bucket with a rate above every
// device's. Another queue may be below its class 1.
func SplitterRaw(at Place, frame int, limit units.ByteSize) Raw {
	rate := (uint64(frame)*1e9 + splitTicks*tickNanoseconds - 1) / (splitTicks * tickNanoseconds)
	return Raw{Kind: "tbf", Parent: at.parent(), Handle: at.Handle, Options: tbfOptions(rate, 0, limit, splitTicks)}
}

// SplitsAt returns the maximum frame of a SplitterRaw; 0 for others.
func (r Raw) SplitsAt() (frame int) {
	if r.Kind != "tbf" {
		return 0
	}
	_ = attributes(r.Options, func(kind uint16, value []byte) error {
		if kind == tbfRate64 && len(value) == 8 {
			frame = int(binary.NativeEndian.Uint64(value) * splitTicks * tickNanoseconds / 1e9)
		}
		return nil
	})
	return frame
}

// BfifoRaw describes the qdisc of AddBfifo.
func BfifoRaw(at Place, limit units.ByteSize) Raw {
	return Raw{Kind: "bfifo", Parent: at.parent(), Handle: at.Handle, Options: words(clamp(uint64(limit)))}
}

// AddHTB makes a hierarchical token bucket without classes. Packets that no filter and no priority
// puts into a class go to the class with the minor number fallback; 0 lets them pass unlimited.
func (c *Conn) AddHTB(dev string, at Place, fallback uint16) error {
	return c.Add("htb", dev, at, HTBRaw(at, fallback).Options)
}

// HTBRaw describes the qdisc of AddHTB.
func HTBRaw(at Place, fallback uint16) Raw {
	const initial, version, rate2quantum = 2, 3, 10
	return Raw{Kind: "htb", Parent: at.parent(), Handle: at.Handle,
		Options: attribute(nil, initial, words(version, rate2quantum, uint32(fallback), 0, 0))}
}

// HTBClass describes a class of a hierarchical token bucket.
type HTBClass struct {
	Rate  units.BitRate  // guaranteed
	Ceil  units.BitRate  // including leftover rate; 0 means Rate
	Burst units.ByteSize // bytes sent at once at Rate; 0 means 1 ms at the rate, at least 10 packets
	// CeilBurst is the burst at Ceil; 0 means Burst, or as for Rate.
	CeilBurst units.ByteSize
	Quantum   uint32 // bytes per round while borrowing; 0 lets the kernel choose
	Priority  uint32 // 0 to 7, lowest first, when borrowing
	Overhead  uint16 // bytes per packet beyond its own
}

// AddHTBClass makes the class called class below parent, which is the htb qdisc or another class of
// it.
func (c *Conn) AddHTBClass(dev string, parent, class Handle, spec HTBClass) error {
	if spec.Rate < 8 {
		return fault.New(fault.Usage, "give the class a rate", "add htb class %s to %s: no rate", class, dev)
	}
	raw := HTBClassRaw(parent, class, spec)
	flags := unix.NLM_F_CREATE | unix.NLM_F_EXCL
	if err := c.request(unix.RTM_NEWTCLASS, flags, dev, Place{Parent: parent, Handle: class}, raw.Kind, raw.Options); err != nil {
		return fmt.Errorf("add htb class %s to %s: %w", class, dev, err)
	}
	return nil
}

// HTBClassRaw describes the class of AddHTBClass; spec has a rate.
func HTBClassRaw(parent, class Handle, spec HTBClass) Raw {
	const parms, rate64, ceil64 = 1, 6, 7
	ceil := max(spec.Rate, spec.Ceil)
	rateOctets, ceilOctets := uint64(spec.Rate)/8, uint64(ceil)/8
	burst := func(octets uint64, given units.ByteSize) uint64 {
		if given > 0 {
			return uint64(given)
		}
		return max(octets/1000, 10*1514)
	}
	// struct tc_htb_opt: rate, ceil, buffer, cbuffer, quantum, level, prio.
	opt := append(ratespec(rateOctets, spec.Overhead), ratespec(ceilOctets, spec.Overhead)...)
	opt = append(opt, words(ticks(burst(rateOctets, spec.Burst), rateOctets), ticks(burst(ceilOctets, cmp.Or(spec.CeilBurst, spec.Burst)), ceilOctets),
		spec.Quantum, 0, spec.Priority)...)
	b := attribute(nil, parms, opt)
	if rateOctets > math.MaxUint32 {
		b = attribute(b, rate64, long(rateOctets))
	}
	if ceilOctets > math.MaxUint32 {
		b = attribute(b, ceil64, long(ceilOctets))
	}
	return Raw{Kind: "htb", Parent: parent, Handle: class, Options: b}
}

// FqCodelSpec describes fq_codel (RFC 8290); zero fields take the kernel's defaults.
type FqCodelSpec struct {
	Limit    uint32        // packets
	Flows    uint32        // hash buckets
	Target   time.Duration // acceptable standing delay
	Interval time.Duration
	Quantum  uint32 // bytes
	ECN      bool   // mark instead of dropping where the packet is ECN-capable
}

// AddFqCodel makes a fair queue with delay control.
func (c *Conn) AddFqCodel(dev string, at Place, spec FqCodelSpec) error {
	return c.Add("fq_codel", dev, at, FqCodelRaw(at, spec).Options)
}

// FqCodelRaw describes the qdisc of AddFqCodel.
func FqCodelRaw(at Place, spec FqCodelSpec) Raw {
	const target, limit, interval, ecn, flows, quantum = 1, 2, 3, 4, 5, 6
	var b []byte
	for _, field := range []struct {
		kind  uint16
		value uint32
	}{
		{target, uint32(spec.Target.Microseconds())}, {limit, spec.Limit}, {interval, uint32(spec.Interval.Microseconds())},
		{flows, spec.Flows}, {quantum, spec.Quantum},
	} {
		if field.value != 0 {
			b = attribute(b, field.kind, words(field.value))
		}
	}
	marks := uint32(0)
	if spec.ECN {
		marks = 1
	}
	return Raw{Kind: "fq_codel", Parent: at.parent(), Handle: at.Handle, Options: attribute(b, ecn, words(marks))}
}

// ratespec encodes struct tc_ratespec for a rate in bytes per second over Ethernet.
func ratespec(octets uint64, overhead uint16) []byte {
	const ethernet = 1 // TC_LINKLAYER_ETHERNET: the kernel computes times itself instead of asking for a table
	b := []byte{0, ethernet}
	b = binary.NativeEndian.AppendUint16(b, overhead)
	b = append(b, 0, 0, 0, 0) // cell_align, mpu
	return binary.NativeEndian.AppendUint32(b, clamp(octets))
}

// ticks returns the time to send size bytes at a rate in bytes per second, in ticks of 64 ns.
func ticks(size, rate uint64) uint32 {
	return clamp(uint64(float64(size) / float64(rate) * 1e9 / 64))
}

func clamp(value uint64) uint32 { return uint32(min(value, math.MaxUint32)) }

// FqSpec describes fq; zero fields take the kernel's defaults.
type FqSpec struct {
	Limit, FlowLimit uint32        // packets, in all and of one flow
	Horizon          time.Duration // departure times farther away are moved to it
	MarkFrom         time.Duration // marks packets delayed longer than this beyond their departure time
	OneFlow          bool          // packets without a socket leave by their departure times alone, without slack
}

// FqRaw describes an fq that keeps packets until their departure times and does not pace sockets,
// so that their behaviour is unchanged after its removal.
func FqRaw(at Place, spec FqSpec) Raw {
	const limit, flowLimit, rateEnable, orphanMask, mark, timerSlack, horizon, horizonDrop = 1, 2, 5, 10, 12, 13, 14, 15
	var b []byte
	for _, field := range []struct {
		kind  uint16
		value uint32
	}{{limit, spec.Limit}, {flowLimit, spec.FlowLimit}, {mark, clamp(uint64(spec.MarkFrom / time.Microsecond))}, {horizon, clamp(uint64(spec.Horizon / time.Microsecond))}} {
		if field.value != 0 {
			b = attribute(b, field.kind, words(field.value))
		}
	}
	if spec.OneFlow {
		b = attribute(b, orphanMask, words(0))
		b = attribute(b, timerSlack, words(0))
	}
	b = attribute(b, rateEnable, words(0))
	b = attribute(b, horizonDrop, []byte{0})
	return Raw{Kind: "fq", Parent: at.parent(), Handle: at.Handle, Options: b}
}

// PfifoRaw describes the qdisc of AddPfifo.
func PfifoRaw(at Place, limit uint32) Raw {
	return Raw{Kind: "pfifo", Parent: at.parent(), Handle: at.Handle, Options: words(limit)}
}
