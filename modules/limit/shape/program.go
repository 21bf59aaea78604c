// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"weir/core/match"
	"weir/core/module"
	"weir/internal/units"
	"weir/kernel/bpferr"
	"weir/kernel/bpffs"
	"weir/kernel/bpfmap"
	"weir/kernel/clock"
)

// programs are the loaded or opened programs and maps of shape.bpf.c.
type programs struct {
	charge, receive, notify, arrive, pace *ebpf.Program
	adopt, free                           *ebpf.Program // nil without kernel support
	maps                                  shapeMaps
}

func (p *programs) pinned() map[string]**ebpf.Program {
	return map[string]**ebpf.Program{"program-receive": &p.receive, "program-notify": &p.notify, "program-arrive": &p.arrive, "program-pace": &p.pace, "program-charge": &p.charge,
		adoptPin: &p.adopt, freePin: &p.free}
}

func (p *programs) close() error {
	err := p.maps.Close()
	for _, one := range p.pinned() {
		if *one != nil {
			err = errors.Join(err, (*one).Close())
		}
	}
	return err
}

// load loads and pins the programs, for the given number of shapers.
func load(dir string, shapers int) (*programs, error) {
	p, err := loadWith(shapers, nil)
	if err != nil {
		return nil, err
	}
	if err := p.pin(dir); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// loadWith loads the programs, with the shared maps in place of new ones.
func loadWith(shapers int, shared map[string]*ebpf.Map) (*programs, error) {
	spec, err := loadShape()
	if err != nil {
		return nil, fmt.Errorf("read shaping programs: %w", err)
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, programNeeds.Fault("lift memory lock limit", err)
	}
	shapers = module.Entries(shapers)
	for _, name := range perShaper {
		spec.Maps[name].MaxEntries = uint32(shapers)
	}
	if err := match.Prepare(spec, ebpf.SchedCLS, shapers); err != nil {
		return nil, err
	}
	here, err := match.ThisNetns()
	if err == nil {
		err = spec.Variables[shapeVarShaperNetns].Set(here)
	}
	if err != nil {
		return nil, fmt.Errorf("prepare shaping programs: %w", err)
	}
	options := &ebpf.CollectionOptions{MapReplacements: shared}
	var all shapeObjects
	if spec.LoadAndAssign(&all, options) == nil {
		return &programs{all.DelayCharge, all.DelayReceive, all.DelayNotify, all.DelayArrive, all.DelayPace, all.DelayAdopt, all.DelayFree, all.shapeMaps}, nil
	}
	// Older kernels lack the socket iterators, which are optional.
	var some struct {
		Charge  *ebpf.Program `ebpf:"delay_charge"`
		Receive *ebpf.Program `ebpf:"delay_receive"`
		Notify  *ebpf.Program `ebpf:"delay_notify"`
		Arrive  *ebpf.Program `ebpf:"delay_arrive"`
		Pace    *ebpf.Program `ebpf:"delay_pace"`
		shapeMaps
	}
	if err := spec.LoadAndAssign(&some, options); err != nil {
		return nil, programNeeds.Fault("load shaping programs", err)
	}
	return &programs{some.Charge, some.Receive, some.Notify, some.Arrive, some.Pace, nil, nil, some.shapeMaps}, nil
}

// programNeeds lists the requirements of the programs.
var programNeeds = bpferr.Needs{Capabilities: bpferr.Standard, Kernel: "Linux 6.1 or later with CONFIG_BPF_JIT"}

func (p *programs) pin(dir string) error {
	err := bpffs.Make(dir)
	if err == nil {
		err = bpffs.Maps(match.Fields(&p.maps)).Pin(dir)
	}
	for name, one := range p.pinned() {
		if err == nil && *one != nil {
			err = bpffs.Fault((*one).Pin(filepath.Join(dir, name)))
		}
	}
	return err
}

// layouts are the key and value sizes of the maps.
var layouts = bpffs.Layouts(loadShape)

// open opens the pins of load. The error is fs.ErrNotExist if a pin is missing or has another
// version's layout.
func open(dir string) (*programs, error) {
	layouts, err := layouts()
	if err != nil {
		return nil, fmt.Errorf("read shaping programs: %w", err)
	}
	p := &programs{}
	for name, one := range p.pinned() {
		*one, err = ebpf.LoadPinnedProgram(filepath.Join(dir, name), nil)
		if err != nil && !(missing(err) && (name == adoptPin || name == freePin)) {
			return nil, errors.Join(bpffs.Opening(err), p.close())
		}
	}
	if err = bpffs.Maps(match.Fields(&p.maps)).Open(dir, layouts); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// set activates a shaper and keeps its counters.
func (p *programs) set(key uint32, c shapeShaperConfig) error {
	fresh := func(m *ebpf.Map, value any) error {
		if err := m.Update(key, value, ebpf.UpdateNoExist); err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
			return err
		}
		return nil
	}
	err := fresh(p.maps.DelayStates, &shapeShaperState{})
	if err == nil {
		err = fresh(p.maps.DelayCounts, make([]shapeShaperCounters, ebpf.MustPossibleCPU()))
	}
	if err == nil {
		err = p.maps.DelayConfigs.Put(key, &c)
	}
	if err != nil {
		return fmt.Errorf("set shaper %#x: %w", key, err)
	}
	return nil
}

// clear removes a shaper.
func (p *programs) clear(key uint32) error {
	for _, m := range []*ebpf.Map{p.maps.DelayConfigs, p.maps.DelayStates, p.maps.DelayCounts} {
		if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("remove shaper %#x: %w", key, err)
		}
	}
	return nil
}

// Counters are the counters of one shaper.
type Counters struct {
	Packets, Segments, Octets uint64        // admitted: Packets as sent by the stack (GSO), Segments and Octets on the wire
	Delayed, Marked, Notified uint64        // packets delayed; marked CE; notifications to local senders
	Early, Dropped            uint64        // dropped at random before the horizon; dropped beyond it
	Ahead                     uint64        // packets that departed ahead of the queue, within their flow's fair share
	Windows                   uint64        // receive windows set
	Retries                   uint64        // of compare-and-swap
	Delays                    [32]uint64    // histogram of delays: [2^i, 2^(i+1)) µs in entry i, below 2 µs in entry 0
	Delay                     time.Duration // of a packet that arrives now
	FairRate                  units.BitRate // pace or window rate of one TCP flow; 0 before the first packet
}

func (p *programs) counters(key uint32) (c Counters, err error) {
	sum, err := bpfmap.Sum[shapeShaperCounters](p.maps.DelayCounts, key)
	var state shapeShaperState
	if err = errors.Join(err, p.maps.DelayStates.Lookup(key, &state)); err != nil {
		return c, fmt.Errorf("read counters of shaper %#x: %w", key, err)
	}
	c = Counters{
		Packets: sum.Passed.Packets, Segments: sum.Passed.Segments, Octets: sum.Passed.Bytes,
		Delayed: sum.Delayed, Marked: sum.Passed.Marked, Notified: sum.Passed.Reduced,
		Early: sum.Early, Dropped: sum.Passed.Dropped, Ahead: sum.Ahead,
		Windows: sum.Passed.Windows, Retries: sum.Passed.Retries, Delays: sum.Passed.Queue,
	}
	c.Delay, c.FairRate = time.Duration(max(0, state.FinishNs-clock.Now())), 8*units.BitRate(state.FairRate)
	return c, nil
}
