// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"weir/kernel/bpferr"
	"weir/kernel/netns"
	"weir/modules/offload/pins"
	"weir/modules/offload/plan"
	"weir/modules/offload/sample"
)

// Table is the table of the programs and its plan. Not for concurrent use.
type Table struct {
	ns       *netns.Namespace // the router's
	planner  *plan.Planner
	spec     *ebpf.CollectionSpec
	objects  fastMaps
	memory   map[string]shared
	tree     *tree
	ports    map[int]uint16 // number by device
	places   [][]int        // by decision: indices of several hops in hops
	used     int            // entries of hops in use
	programs map[int]*ebpf.Program
	pending  map[plan.Decision]bool
	folder   string // of its pins; "" if unpinned
}

// spare is the number of additional decisions and hops before the table must be replaced.
const spare = 4096

// ErrFull reports that the table has no space for a change. Install a new one.
var ErrFull = errors.New("the fast path's table is full")

// New creates the table of a plan for the router in ns. Its programs are not attached.
func New(ns *netns.Namespace, p *plan.Planner) (t *Table, err error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, programNeeds.Fault("lift memory lock limit", err)
	}
	t = &Table{ns: ns, planner: p, memory: map[string]shared{}, ports: map[int]uint16{}, programs: map[int]*ebpf.Program{}, pending: map[plan.Decision]bool{}}
	made := t
	defer func() {
		if err != nil {
			made.Close()
		}
	}()
	own := newTree()
	for _, all := range families {
		if err := own.update(p, all); err != nil {
			return nil, fmt.Errorf("build the fast path's table: %w", err)
		}
	}
	own.settle()
	if err := t.load(blocksFor(own.used)); err != nil {
		return nil, err
	}
	words := of[uint32](t.memory["blocks"])
	copy(words, own.words[:own.used*fanout])
	t.tree = &tree{words: words, used: own.used, free: own.free}
	for _, in := range p.Inputs() {
		if err := t.input(in); err != nil {
			return nil, err
		}
	}
	t.own()
	for d := range p.Decisions() {
		t.pending[plan.Decision(d)] = true
	}
	if err := t.flush(); err != nil {
		return nil, err
	}
	return t, nil
}

// load creates the maps.
func (t *Table) load(blocks int) (err error) {
	if t.spec, err = loadFast(); err != nil {
		return fmt.Errorf("read the fast path's program: %w", err)
	}
	decisions := uint32(t.planner.Decisions() + spare)
	t.spec.Maps["fast_blocks"].MaxEntries = uint32(blocks)
	t.spec.Maps["fast_nexts"].MaxEntries = decisions
	t.spec.Maps["fast_forwarded"].MaxEntries = decisions
	t.spec.Maps["fast_hops"].MaxEntries = decisions
	if err := sample.Ready(t.spec, t.planner.Budgeted()); err != nil {
		return err
	}
	if err := t.spec.LoadAndAssign(&t.objects, nil); err != nil {
		return programNeeds.Fault("make the fast path's table", err)
	}
	for name, m := range map[string]*ebpf.Map{"blocks": t.objects.FastBlocks, "inputs": t.objects.FastInputs, "nexts": t.objects.FastNexts,
		"hops": t.objects.FastHops, "own": t.objects.FastOwn, "lease": t.objects.FastLease} {
		if t.memory[name], err = share(m); err != nil {
			return err
		}
	}
	return nil
}

// Close releases the table. Attached programs continue.
func (t *Table) Close() {
	for _, m := range t.memory {
		m.close()
	}
	for _, p := range t.programs {
		_ = p.Close()
	}
	_ = t.objects.Close()
}

// port returns the number of a device.
func (t *Table) port(index int) (uint16, error) {
	if n, known := t.ports[index]; known {
		return n, nil
	}
	n := uint16(len(t.ports))
	if int(n) >= int(fastFastBoundsFAST_PORTS) {
		return 0, fmt.Errorf("more than %d ports", fastFastBoundsFAST_PORTS)
	}
	// The kernel resolves the index in the namespace of the calling thread.
	if err := t.ns.Do(func() error { return t.objects.FastPorts.Put(uint32(n), uint32(index)) }); err != nil {
		return 0, fmt.Errorf("name a port to redirect to: %w", err)
	}
	t.ports[index] = n
	return n, nil
}

// input writes the entry of a link.
func (t *Table) input(in plan.Input) error {
	n, err := t.port(in.Port)
	if err != nil {
		return err
	}
	entry := fastFastInput{Mac: in.MAC, Strict: uint8(in.Filter)}
	if in.IPv4 {
		entry.Flags |= uint8(fastFastFlagsFAST_IPV4)
	}
	if in.IPv6 {
		entry.Flags |= uint8(fastFastFlagsFAST_IPV6)
	}
	if in.Unfinished {
		entry.Flags |= uint8(fastFastFlagsFAST_UNFINISHED)
	}
	of[fastFastInput](t.memory["inputs"])[int(n)*int(fastFastBoundsFAST_VLANS)+in.VLAN] = entry
	return nil
}

// own writes the filter of the router's own addresses.
func (t *Table) own() {
	words := of[uint64](t.memory["own"])
	for _, a := range t.planner.Own() {
		if a.Is4() {
			b := a.As4()
			bit := (uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])) * 2654435761 >> 16
			atomic.OrUint64(&words[bit/64], 1<<(bit%64))
		}
	}
}

// Update writes the plan's current decisions below prefixes, and the current hops of changed
// decisions. After [ErrFull] install a new table.
func (t *Table) Update(prefixes []netip.Prefix, changed []plan.Decision) error {
	known := len(t.places)
	for d := known; d < t.planner.Decisions(); d++ {
		t.pending[plan.Decision(d)] = true
	}
	for _, d := range changed {
		t.pending[d] = true
	}
	if t.planner.Decisions() > int(t.objects.FastNexts.MaxEntries()) {
		return ErrFull
	}
	t.own()
	// Hops are written before the entries that refer to them.
	if err := t.flush(); err != nil {
		return err
	}
	for _, to := range prefixes {
		if err := t.tree.update(t.planner, to); err != nil {
			return errors.Join(ErrFull, err)
		}
	}
	if len(t.tree.retired) > 0 && len(t.tree.free) == 0 {
		if err := quiesce(); err != nil {
			return err
		}
		t.tree.settle()
	}
	return nil
}

// flush writes the hops of pending decisions. The CPU gets their packets meanwhile.
func (t *Table) flush() error {
	if len(t.pending) == 0 {
		return nil
	}
	nexts, seen := of[fastFastNext](t.memory["nexts"]), false
	for d := range t.pending {
		seen = seen || int(d) < len(t.places) && atomic.LoadUint32(&nexts[d].Count) != 0
		atomic.StoreUint32(&nexts[d].Count, 0)
	}
	if seen {
		if err := quiesce(); err != nil {
			return err
		}
	}
	for d := range t.pending {
		if err := t.next(&nexts[d], d); err != nil {
			return err
		}
		delete(t.pending, d)
	}
	return nil
}

// next writes the hops of a decision that no program reads at the moment.
func (t *Table) next(into *fastFastNext, d plan.Decision) error {
	for int(d) >= len(t.places) {
		t.places = append(t.places, nil)
	}
	all := t.planner.Next(d).Hops
	hops := make([]fastFastHop, len(all))
	total, reached := 0, 0
	for _, h := range all {
		total += h.Weight
	}
	for i, h := range all {
		n, err := t.port(h.Port)
		if err != nil {
			return err
		}
		reached += h.Weight
		hops[i] = fastFastHop{Dst: h.Dst, Src: h.Src, Vlan: uint16(h.VLAN), Port: n, Mtu: uint32(h.MTU),
			Bound: uint32(uint64(reached) * (math.MaxInt32 + 1) / uint64(total))}
	}
	switch {
	case len(hops) == 1:
		into.Hop = hops[0]
	case len(hops) > 1:
		shared := of[fastFastHop](t.memory["hops"])
		if len(t.places[d]) < len(hops) {
			if t.used+len(hops) > int(t.objects.FastHops.MaxEntries()) {
				return ErrFull
			}
			t.places[d] = nil
			for i := range hops {
				t.places[d] = append(t.places[d], t.used+i)
			}
			t.used += len(hops)
		}
		into.First = uint32(t.places[d][0])
		copy(shared[into.First:], hops)
	}
	atomic.StoreUint32(&into.Count, uint32(len(hops)))
	return nil
}

// Renew makes the table valid for a time from now on.
func (t *Table) Renew(lease time.Duration) error {
	at, err := pins.Now()
	if err != nil {
		return err
	}
	atomic.StoreUint64(&of[uint64](t.memory["lease"])[0], at+uint64(lease))
	return nil
}

// Lookup returns the decision that the program finds.
func (t *Table) Lookup(a netip.Addr) plan.Decision { return t.tree.lookup(a) }

// Samples returns the sampled destinations; none without a budget.
func (t *Table) Samples() sample.Sampler {
	return sample.Sampler{Maps: sample.Maps{Places: t.objects.SamplePlaces, Facts: t.objects.SampleFacts, Seen: t.objects.SampleSeen}}
}

// Memory returns the bytes of the maps in the kernel.
func (t *Table) Memory() (octets uint64) {
	for _, m := range t.memory {
		octets += uint64(len(m.octets))
	}
	return octets
}

// programNeeds lists the requirements of the programs.
var programNeeds = bpferr.Needs{Capabilities: bpferr.Standard, Kernel: "Linux 6.1 or later with CONFIG_BPF_JIT"}
