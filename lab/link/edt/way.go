// SPDX-License-Identifier: Apache-2.0

package edt

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"weir/kernel/bpferr"
	"weir/kernel/clock"
	"weir/kernel/device"
	"weir/kernel/tc"
	"weir/lab/link"
	"weir/lab/link/inkernel"
)

const (
	noLimit = 1 << 20 // packets of an fq that is not to drop
	horizon = 4000 * time.Second
)

// way is one direction of a cable.
type way struct {
	inkernel.Path
	place    *inkernel.Place
	objects  wayObjects
	programs []*device.Attachment
	shaped   bool // To has an fq
	before   uint64
}

// Build works from the far end to the near one, so that no frame meets an incomplete direction.
func (w *way) Build() error {
	sink, err := w.place.Devices.Device(w.To)
	if err != nil {
		return err
	}
	if err := w.load(sink.Index); err != nil {
		return err
	}
	const create = unix.NLM_F_CREATE | unix.NLM_F_EXCL
	if err := w.place.Qdiscs.Put(tc.QdiscMessage, create, sink.Index,
		tc.FqRaw(tc.Place{}, tc.FqSpec{Limit: noLimit, FlowLimit: noLimit, Horizon: horizon, OneFlow: true})); err != nil {
		return err
	}
	w.shaped = true
	lost, err := link.ReadDrops(w.place.Namespace, w.To)
	if err != nil {
		return err
	}
	w.before = lost.Transmit
	if err := w.attach(w.To, device.Egress, w.objects.EdtStamp); err != nil {
		return err
	}
	return w.attach(w.From, device.Ingress, w.objects.EdtDecide)
}

func (w *way) attach(dev string, hook device.Hook, program *ebpf.Program) error {
	a, err := device.Attach(w.place.Namespace, dev, hook, 0, "edt", program, device.Options{Mechanism: w.place.Hook})
	if err == nil {
		w.programs = append(w.programs, a)
	}
	return err
}

// load loads the programs, made for this direction alone.
func (w *way) load(target int) error {
	spec, err := loadWay()
	if err != nil {
		return fmt.Errorf("load link programs: %w", err)
	}
	config := configure(w.Direction, target)
	if err := spec.Variables["edt"].Set(&config); err != nil {
		return fmt.Errorf("load link programs: %w", err)
	}
	if err := lengthen(spec.Maps["edt_states"], config.RingMask+1); err != nil {
		return fmt.Errorf("load link programs: %w", err)
	}
	if err := spec.LoadAndAssign(&w.objects, nil); err != nil {
		return programNeeds.Fault("load link programs", err)
	}
	if err := w.seed(); err != nil {
		return fmt.Errorf("load link programs: %w", err)
	}
	table := shape(w.Direction.Shape)
	if err := w.objects.EdtShapes.Put(uint32(0), &table); err != nil {
		return fmt.Errorf("load link programs: %w", err)
	}
	return w.begin()
}

// lengthen sets the number of elements of the last member of a map's value.
func lengthen(m *ebpf.MapSpec, count uint32) error {
	value, isStruct := m.Value.(*btf.Struct)
	if !isStruct || len(value.Members) == 0 {
		return errors.New("the state's type is not known")
	}
	last := &value.Members[len(value.Members)-1]
	ring, isArray := last.Type.(*btf.Array)
	if !isArray {
		return errors.New("the state does not end with a ring")
	}
	each, err := btf.Sizeof(ring.Type)
	if err != nil {
		return err
	}
	value.Size += uint32(each) * (count - ring.Nelems)
	ring.Nelems = count
	m.ValueSize = value.Size
	return nil
}

// seed starts the direction's choices; xorshift must not start with 0.
func (w *way) seed() error {
	state := make([]byte, w.objects.EdtStates.ValueSize())
	mixed := mix(w.Direction.Seed + 1)
	if mixed == 0 {
		mixed = 1
	}
	const at = 8 // behind the lock and the fraction
	for i := range 8 {
		state[at+i] = byte(mixed >> (8 * i)) // bpfel
	}
	return w.objects.EdtStates.Put(uint32(0), state)
}

// mix spreads a seed over all bits (SplitMix64, Steele, Lea and Flood 2014).
func mix(z uint64) uint64 {
	z *= 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// begin resets the maximum queue length.
func (w *way) begin() error {
	if err := w.objects.EdtDepth.Put(uint32(0), &wayEdtDepths{BeganNs: uint64(clock.Now())}); err != nil {
		return fmt.Errorf("forget queue lengths: %w", err)
	}
	return nil
}

// depths returns the intervals that are over.
func (w *way) depths() ([]uint32, error) {
	var d wayEdtDepths
	if err := w.objects.EdtDepth.Lookup(uint32(0), &d); err != nil {
		return nil, err
	}
	over := min(max(0, (clock.Now()-int64(d.BeganNs))/int64(link.DepthInterval)), int64(len(d.Octets)))
	return d.Octets[:over], nil
}

func (w *way) Counters() (link.Counters, error) {
	var n wayEdtCounters
	var d wayEdtDepths
	if err := errors.Join(w.objects.EdtCounts.Lookup(uint32(0), &n), w.objects.EdtDepth.Lookup(uint32(0), &d)); err != nil {
		return link.Counters{}, err
	}
	out, err := w.qdisc()
	if err != nil {
		return link.Counters{}, err
	}
	lost, err := link.ReadDrops(w.place.Namespace, w.To)
	if err != nil {
		return link.Counters{}, err
	}
	return link.Counters{
		Received: n.Received, ReceivedBytes: n.ReceivedOctets, Sent: out.Packets, SentBytes: out.Bytes,
		QueueDrops: n.QueueDrops, LossDrops: n.LossDrops, Marked: n.Marked, Duplicated: n.Duplicated,
		Reordered: n.Reordered, Corrupted: n.Corrupted, Held: out.Queued, MaxBacklog: d.MaxOctets,
		Overruns: n.Failed + n.Foreign + lost.Transmit - w.before,
	}, nil
}

func (w *way) qdisc() (tc.Qdisc, error) {
	all, err := w.place.Qdiscs.List(w.To)
	if err != nil {
		return tc.Qdisc{}, err
	}
	for _, q := range all {
		if q.Parent == tc.Root && q.Kind == "fq" {
			return q, nil
		}
	}
	return tc.Qdisc{}, errors.New("the link's fq is gone")
}

// Remove undoes build, as far as it got.
func (w *way) Remove() error {
	var failures []error
	for i := len(w.programs) - 1; i >= 0; i-- {
		failures = append(failures, w.programs[i].Close())
	}
	if w.shaped {
		failures = append(failures, w.place.Qdiscs.Delete(w.To, tc.Place{}))
	}
	return errors.Join(append(failures, w.objects.Close())...)
}

// programNeeds lists the requirements of the programs.
var programNeeds = bpferr.Needs{Capabilities: bpferr.Standard, Kernel: "Linux 6.1 or later with CONFIG_BPF_JIT"}
