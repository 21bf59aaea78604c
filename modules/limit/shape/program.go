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
	"golang.org/x/sys/unix"

	"weir/core/match"
	"weir/core/module"
	"weir/internal/units"
	"weir/kernel/bpferr"
	"weir/kernel/bpffs"
)

// programs are those of delay.bpf.c with their maps, loaded or opened.
type programs struct {
	charge, receive, notify, arrive, pace *ebpf.Program
	adopt, free                           *ebpf.Program // nil where the kernel does not take them
	maps                                  delayMaps
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

// load loads and pins them, with room for so many lines.
func load(dir string, lines int) (*programs, error) {
	p, err := loadWith(lines, nil)
	if err != nil {
		return nil, err
	}
	if err := p.pin(dir); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// loadWith shares maps of others, by their names.
func loadWith(lines int, shared map[string]*ebpf.Map) (*programs, error) {
	spec, err := loadDelay()
	if err != nil {
		return nil, fmt.Errorf("read delay programs: %w", err)
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, programNeeds.Fault("lift memory lock limit", err)
	}
	lines = module.Entries(lines)
	for _, name := range perLine {
		spec.Maps[name].MaxEntries = uint32(lines)
	}
	if err := match.Prepare(spec, ebpf.SchedCLS, lines); err != nil {
		return nil, err
	}
	here, err := match.ThisNetns()
	if err == nil {
		err = spec.Variables[delayVarDelayNetns].Set(here)
	}
	if err != nil {
		return nil, fmt.Errorf("prepare delay programs: %w", err)
	}
	options := &ebpf.CollectionOptions{MapReplacements: shared}
	var all delayObjects
	if spec.LoadAndAssign(&all, options) == nil {
		return &programs{all.DelayCharge, all.DelayReceive, all.DelayNotify, all.DelayArrive, all.DelayPace, all.DelayAdopt, all.DelayFree, all.delayMaps}, nil
	}
	// Those that visit open sockets are a comfort that older kernels lack.
	var some struct {
		Charge  *ebpf.Program `ebpf:"delay_charge"`
		Receive *ebpf.Program `ebpf:"delay_receive"`
		Notify  *ebpf.Program `ebpf:"delay_notify"`
		Arrive  *ebpf.Program `ebpf:"delay_arrive"`
		Pace    *ebpf.Program `ebpf:"delay_pace"`
		delayMaps
	}
	if err := spec.LoadAndAssign(&some, options); err != nil {
		return nil, programNeeds.Fault("load delay programs", err)
	}
	return &programs{some.Charge, some.Receive, some.Notify, some.Arrive, some.Pace, nil, nil, some.delayMaps}, nil
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

// layouts are those of the maps.
var layouts = bpffs.Layouts(loadDelay)

// open opens what load has pinned. The error is fs.ErrNotExist where it is not there as this
// version needs it.
func open(dir string) (*programs, error) {
	layouts, err := layouts()
	if err != nil {
		return nil, fmt.Errorf("read delay programs: %w", err)
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

// set puts a line into force, and keeps what it has counted.
func (p *programs) set(key uint32, c delayDelayConfig) error {
	fresh := func(m *ebpf.Map, value any) error {
		if err := m.Update(key, value, ebpf.UpdateNoExist); err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
			return err
		}
		return nil
	}
	err := fresh(p.maps.DelayStates, &delayDelayState{})
	if err == nil {
		err = fresh(p.maps.DelayCounts, make([]delayDelayCounters, ebpf.MustPossibleCPU()))
	}
	if err == nil {
		err = p.maps.DelayConfigs.Put(key, &c)
	}
	if err != nil {
		return fmt.Errorf("set limit %#x: %w", key, err)
	}
	return nil
}

// clear ends a line.
func (p *programs) clear(key uint32) error {
	for _, m := range []*ebpf.Map{p.maps.DelayConfigs, p.maps.DelayStates, p.maps.DelayCounts} {
		if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("clear limit %#x: %w", key, err)
		}
	}
	return nil
}

// Counters are what was done to the packets of a line.
type Counters struct {
	Packets, Segments, Octets uint64 // admitted: as the stack hands them over, and as the wire carries them
	Delayed, Marked, Notified uint64 // that had to wait; marked CE; whose sender was told
	Early, Dropped            uint64 // dropped by chance; beyond the horizon
	Ahead                     uint64 // that departed ahead of the queue, within their flow's part
	Windows                   uint64 // receive windows set, of what comes in
	Retries                   uint64
	Delays                    [32]uint64    // packets by delay: [2^i, 2^(i+1)) µs in entry i, below 2 µs in entry 0
	Delay                     time.Duration // of the next packet
	FairRate                  units.BitRate // that a TCP flow is paced at, or held to; 0 before the first packet
}

func (p *programs) counters(key uint32) (c Counters, err error) {
	each, state := []delayDelayCounters{}, delayDelayState{}
	if err := errors.Join(p.maps.DelayCounts.Lookup(key, &each), p.maps.DelayStates.Lookup(key, &state)); err != nil {
		return c, fmt.Errorf("read counters of limit %#x: %w", key, err)
	}
	for _, one := range each {
		c.Packets, c.Segments, c.Octets = c.Packets+one.Passed.Packets, c.Segments+one.Passed.Segments, c.Octets+one.Passed.Bytes
		c.Delayed, c.Marked, c.Notified = c.Delayed+one.Delayed, c.Marked+one.Passed.Marked, c.Notified+one.Passed.Reduced
		c.Early, c.Dropped, c.Retries = c.Early+one.Early, c.Dropped+one.Passed.Refused, c.Retries+one.Passed.Retries
		c.Ahead, c.Windows = c.Ahead+one.Ahead, c.Windows+one.Passed.Windows
		for i, n := range one.Passed.Queue {
			c.Delays[i] += n
		}
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil { // the clock of bpf_ktime_get_ns
		return c, fmt.Errorf("read monotonic clock: %w", err)
	}
	c.Delay, c.FairRate = time.Duration(max(0, state.FinishNs-now.Nano())), 8*units.BitRate(state.FairRate)
	return c, nil
}
