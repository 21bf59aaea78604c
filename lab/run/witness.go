// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"slices"

	"weir/lab/fidelity/witness"
	"weir/lab/scenario"
	"weir/lab/traffic"
)

// testbed describes the bench to the witness.
func (b *Bench) testbed() witness.Testbed {
	bed := witness.Testbed{Carrier: b.Topology.Carrier, Carrying: b.Carrying, Limited: isLimited(b.Cell),
		Busy: slices.ContainsFunc(b.Cell.Phases, func(p scenario.Phase) bool { return p.Procedure != nil })}
	testers := b.testers()
	for _, node := range b.Cell.Nodes {
		place := witness.Place{Name: node.Name, Namespace: b.Topology.Nodes[node.Name], Tested: slices.Contains(testers, node.Name)}
		if node.IOAM.On() {
			setup := node.IOAM.Setup
			place.Programs, place.Narrow, place.Shortens = b.programs(node.Name), setup.Reserves(), setup.Removes()
		}
		bed.Places = append(bed.Places, place)
	}
	for i, l := range b.Cell.Links {
		a, z := b.Topology.Ends[2*i], b.Topology.Ends[2*i+1]
		bed.Links = append(bed.Links, witness.Link{Name: l.Name, Emulated: !l.Plain, Classes: l.Classes != nil, Forward: l.Forward, Reverse: l.Reverse,
			A: witness.End{Place: a.Node, Device: a.Device}, B: witness.End{Place: z.Node, Device: z.Device}})
	}
	return bed
}

// programs reads the packet counters of an IOAM node.
func (b *Bench) programs(node string) func() (witness.Programs, error) {
	return func() (witness.Programs, error) {
		c, _, err := b.Domain.Counts(node)
		return witness.Programs{Dropped: c.Dropped, Made: c.Copied}, err
	}
}

// isLimited reports whether a limit, or a class queue, may drop packets.
func isLimited(cell *scenario.Cell) bool {
	if slices.ContainsFunc(cell.Links, func(l scenario.Link) bool { return l.Classes != nil }) {
		return true
	}
	return slices.ContainsFunc(cell.Limits, func(l scenario.Limit) bool {
		return l.Mechanism != scenario.Unlimited && l.Mechanism != scenario.Shadow
	})
}

// testers returns the nodes with a frame tester: the ends of streams, and every node on a
// benchmark's path.
func (b *Bench) testers() (names []string) {
	for _, phase := range b.Cell.Phases {
		for _, s := range phase.Streams {
			names = append(names, s.From, s.To)
			names = append(names, b.beside(s)...)
		}
		if p := phase.Procedure; p != nil {
			hops, err := b.hops(p.From, p.To, p.Family)
			if err != nil {
				continue // the procedure reports it
			}
			for _, hop := range hops {
				names = append(names, b.Topology.Ends[hop].Node)
			}
		}
	}
	return names
}

// flows describes the results of the phases' flows to the witness.
func (b *Bench) flows(phases []PhaseResult) (all []witness.Flow) {
	for _, phase := range phases {
		for i := range phase.Flows {
			all = append(all, b.flow(phase, &phase.Flows[i]))
		}
	}
	return all
}

func (b *Bench) flow(phase PhaseResult, result *traffic.Result) witness.Flow {
	f := result.Flow
	from, to := f.Data()
	w := witness.Flow{
		Name: f.Name, From: f.From, To: f.To, TCP: f.Kind != traffic.Datagram, IPv6: f.IP() == 6, Approximate: result.Generator != nativeGenerator,
		Begin: f.Start, Settle: max(0, phase.Phase.Settle-f.Start), Interval: traffic.RateInterval, Rate: f.Rate, Octets: uint64(f.Bytes), MTU: b.mtu(),
		There: b.crossed(from, to, f.IP()), Back: b.crossed(to, from, f.IP()), Concurrent: result.Failed == "",
	}
	switch f.Kind {
	case traffic.Datagram:
		w.Back = nil
	case traffic.Program:
		w.TCP, w.Free, w.Concurrent = false, true, false
	case traffic.Request:
		w.Connections = uint64(f.Streams * f.Concurrency)
	case traffic.Transfers:
		// No transfer under way means no data. All data arrive within the flow's time, so the bound
		// holds without settle time, and for many connections.
		w.Connections, w.Concurrent, w.Settle = uint64(len(result.Transfers)), false, 0
	default:
		w.Connections = uint64(f.Streams)
	}
	last := int(f.Duration / traffic.RateInterval)
	for _, s := range result.Streams {
		w.Datagrams += s.Sent
		for i, n := range s.Received {
			for i >= len(w.Received) {
				w.Received = append(w.Received, 0)
			}
			w.Received[i] += n
		}
	}
	if f.Bytes == 0 && len(w.Received) > last {
		w.Received = w.Received[:last]
	}
	return w
}

// nativeGenerator opens exactly one connection per stream.
const nativeGenerator = "weir"

// mtu is the largest of the cell's links.
func (b *Bench) mtu() int {
	most := 0
	for _, l := range b.Cell.Links {
		most = max(most, l.MTU)
	}
	if most == 0 {
		return 1500
	}
	return most
}

// crossed returns the links between two nodes, by IP version; none without a path.
func (b *Bench) crossed(from, to string, family int) (list []witness.Hop) {
	hops, err := b.hops(from, to, family)
	if err != nil {
		return nil
	}
	for i := 0; i < len(hops); i += 2 {
		list = append(list, witness.Hop{Link: hops[i] / 2, Reverse: hops[i]%2 == 1})
	}
	return list
}

// drain waits until the links hold no earlier frames.
func (b *Bench) drain(ctx context.Context) error {
	if b.witness == nil {
		return nil
	}
	_, err := b.witness.Drain(ctx)
	return err
}

// disturb calls a test's hook beside a phase; the returned function waits for its end.
func (e *execution) disturb(ctx context.Context, bench *Bench) (wait func()) {
	if e.options.during == nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.options.during(ctx, bench)
	}()
	return func() { <-done }
}

// beside returns the nodes at the far ends of a stream's plain links. The tester's XDP programs
// change the offloads of these devices too.
func (b *Bench) beside(s scenario.TesterStream) (names []string) {
	hops, err := b.hops(s.From, s.To, s.Family)
	if err != nil {
		return nil
	}
	if b.Cell.Links[hops[0]/2].Plain {
		names = append(names, b.Topology.Ends[hops[1]].Node)
	}
	if b.Cell.Links[hops[len(hops)-1]/2].Plain {
		names = append(names, b.Topology.Ends[hops[len(hops)-2]].Node)
	}
	return names
}
