// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"weir/internal/fault"
	"weir/kernel/bpferr"
	"weir/tester"
	"weir/tester/frame"
	"weir/tester/packet"
	"weir/tester/tai"
)

const (
	never     = ^uint64(0) >> 1
	indexBits = 12
	headSize  = 80
	stampSize = tester.StampSize
)

// load makes maps and programs for the plan and fills them.
func (l *live) load(schedule tester.Schedule) error {
	spec, err := loadGenerator()
	if err != nil {
		return fmt.Errorf("read generator program: %w", err)
	}
	outlines, plans, progresses := translate(l.plan)
	spec.Maps["outlines"].MaxEntries = uint32(len(outlines))
	spec.Maps["plans"].MaxEntries = uint32(len(plans))
	spec.Maps["progresses"].MaxEntries = uint32(len(plans))
	settings, err := l.settings(schedule)
	if err != nil {
		return err
	}
	if err := spec.Variables["settings"].Set(settings); err != nil {
		return fmt.Errorf("set up generator: %w", err)
	}
	if err := spec.LoadAndAssign(&l.objects, nil); err != nil {
		return programNeeds.Fault("load generator", err)
	}
	if err := fill(l.objects.Outlines, outlines); err != nil {
		return err
	}
	if err := fill(l.objects.Plans, plans); err != nil {
		return err
	}
	if err := fill(l.objects.Progresses, progresses); err != nil {
		return err
	}
	heap, rounds := line(plans, schedule.Sequential)
	if err := l.objects.Due.Put(uint32(0), heap); err != nil {
		return fmt.Errorf("set up generator: %w", err)
	}
	if err := l.objects.Turns.Put(uint32(0), rounds); err != nil {
		return fmt.Errorf("set up generator: %w", err)
	}
	return nil
}

func (l *live) settings(schedule tester.Schedule) (*generatorGeneratorSettings, error) {
	offset, err := tai.Offset()
	if err != nil {
		return nil, err
	}
	s := &generatorGeneratorSettings{
		Duration: uint64(schedule.Duration), MaxFrames: schedule.MaxFrames, LateAfter: packet.LateAfter, Tai: offset, Tolerance: uint64(schedule.Tolerance),
		Streams: uint32(len(l.plan)), Length: uint32(largest(l.plan)),
	}
	if schedule.Policy == tester.Skip {
		s.Skip = 1
	}
	if schedule.Policy == tester.Space {
		s.Space = 1
	}
	if schedule.Sequential {
		s.Sequential = 1
	}
	if l.batch == 1 || coalesces(schedule) {
		s.Spin = 1
	}
	l.data = make([]byte, s.Length)
	for _, offset := range restores(l.plan, l.data) {
		if int(s.Restores) == len(s.Restore) {
			return nil, fault.New(fault.Usage, "use fewer sizes", "send with %s: %d different sizes are the most", Live, len(s.Restore)+1)
		}
		s.Restore[s.Restores] = uint16(offset)
		s.Restores++
	}
	return s, nil
}

// restores returns the stamp offsets of all frames except the longest, and writes the longest
// frame's octets to data.
func restores(plan []frame.Planned, data []byte) []int {
	var places []int
	for _, p := range plan {
		for _, t := range p.Templates {
			switch {
			case len(t.Octets) == len(data):
				copy(data, t.Octets)
			case t.Stamped && len(t.Octets) > headSize: // the head is rewritten anyway
				places = append(places, len(t.Octets)-stampSize)
			}
		}
	}
	slices.Sort(places)
	return slices.Compact(places)
}

func translate(plan []frame.Planned) ([]generatorOutline, []generatorPlan, []generatorProgress) {
	var outlines []generatorOutline
	plans := make([]generatorPlan, len(plan))
	progresses := make([]generatorProgress, len(plan))
	for i, p := range plan {
		to := &plans[i]
		*to = generatorPlan{
			Period: p.Period(), Frames: p.Frames, Start: uint64(p.Start), Outline: uint32(len(outlines)), Burst: uint32(max(p.Burst, 1)),
			Id: p.ID, CycleLength: uint8(len(p.Cycle)), Fields: uint8(len(p.Modifiers)),
		}
		for at, index := range p.Cycle {
			to.Cycle[at] = uint8(index)
		}
		for at := range p.Templates[0].Fields {
			f := &p.Templates[0].Fields[at]
			to.Field[at] = fieldOf(f)
			progresses[i].Turn[at].Value = f.Value(0)
		}
		for _, t := range p.Templates {
			outlines = append(outlines, outlineOf(t))
		}
	}
	return outlines, plans, progresses
}

func fieldOf(f *frame.Field) generatorField {
	field := generatorField{
		Repetitions: f.Repetitions, Seed: f.Seed, Mask: f.Mask, NetworkMask: f.NetworkMask, UdpMask: f.UDPMask, Offset: uint16(f.Offset),
		Action: generatorActionACTION_INCREMENT,
	}
	switch f.Action {
	case tester.Decrement:
		field.Action = generatorActionACTION_DECREMENT
	case tester.Random:
		field.Action = generatorActionACTION_RANDOM
	}
	if f.Odd {
		field.Odd = 1
	}
	return field
}

func outlineOf(t *frame.Template) generatorOutline {
	o := generatorOutline{Length: uint16(len(t.Octets)), UdpSum: t.UDPSum, NetworkSum: t.NetworkSum, Udp: uint16(t.UDP)}
	if !t.IP6 {
		o.Network = uint16(t.Network)
	}
	if t.Stamped {
		o.Stamp = uint16(len(t.Octets) - stampSize)
		o.Odd = (o.Stamp - o.Udp) & 1
	}
	copy(o.Head[:], t.Octets)
	if t.Stamped && len(t.Octets) < headSize { // octets of another stream's longer frame do not matter here
		clear(o.Head[len(t.Octets):])
	}
	return o
}

// line orders the streams for their start.
func line(plans []generatorPlan, sequential bool) (*generatorHeap, *generatorRounds) {
	heap, rounds := &generatorHeap{}, &generatorRounds{}
	for i := range heap.Keys {
		heap.Keys[i] = never
	}
	if sequential {
		heap.Keys[0] = plans[0].Start << indexBits
		return heap, rounds
	}
	n := 0
	for i, p := range plans {
		if p.Period == 0 && p.Start == 0 {
			rounds.Streams[rounds.Size] = uint16(i)
			rounds.Size++
			continue
		}
		heap.Keys[n] = p.Start<<indexBits | uint64(i)
		n++
	}
	slices.Sort(heap.Keys[:n]) // a sorted array is a heap
	return heap, rounds
}

func fill[T any](m *ebpf.Map, values []T) error {
	keys := make([]uint32, len(values))
	for i := range keys {
		keys[i] = uint32(i)
	}
	if _, err := m.BatchUpdate(keys, values, nil); err != nil {
		return fmt.Errorf("set up generator: fill %s: %w", m, err)
	}
	return nil
}

// programNeeds lists the requirements of the programs.
var programNeeds = bpferr.Needs{Capabilities: bpferr.Standard, Kernel: "Linux 6.1 or later with CONFIG_BPF_JIT"}
