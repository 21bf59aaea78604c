// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"weir/lab/scenario"
	"weir/tester"
	"weir/tester/session"
)

// runStreams runs the phase's tester streams in one session, grouped by their pair of nodes.
func runStreams(ctx context.Context, bench *Bench, phase scenario.Phase) []StreamResult {
	results := make([]StreamResult, len(phase.Streams))
	for i, stream := range phase.Streams {
		results[i] = StreamResult{Stream: stream, Problem: "it was not measured"}
	}
	config, err := bench.session(phase)
	var account session.Account
	if err == nil {
		account, err = session.Run(ctx, config)
	}
	if err != nil {
		for i := range results {
			results[i].Problem = err.Error()
		}
		return results
	}
	of := owners(phase)
	measured := make([]int, len(results)) // streams measured, by result
	for _, one := range account.Streams {
		if int(one.ID) >= len(of) || one.Sent == nil || one.Received == nil {
			continue
		}
		i := of[one.ID]
		results[i].pool(one, measured[i] == 0)
		measured[i]++
	}
	for i := range results {
		if skipped := results[i].Sent.Skipped; measured[i] == phase.Streams[i].Count && skipped == 0 {
			results[i].Problem = ""
		} else if skipped > 0 {
			results[i].Problem = fmt.Sprintf("the generator did not send %d frames in time", skipped)
		}
	}
	return results
}

// pool adds one of several equal streams; first marks the first of them.
func (r *StreamResult) pool(one session.Stream, first bool) {
	if first {
		r.Sent, r.Counts, r.Lost = *one.Sent, *one.Received, one.Lost
		return
	}
	r.Sent, r.Counts, r.Lost = r.Sent.Pool(*one.Sent), r.Counts.Pool(*one.Received), r.Lost+one.Lost
}

// owners maps each stream identifier to an index in the phase's streams. Equal streams are
// adjacent.
func owners(phase scenario.Phase) (of []int) {
	for i, stream := range phase.Streams {
		for range stream.Count {
			of = append(of, i)
		}
	}
	return of
}

// session describes the phase's streams to the tester, with the identifiers that owners counts.
func (b *Bench) session(phase scenario.Phase) (session.Config, error) {
	config := session.Config{Name: phase.Name, Clock: session.OneWay, Straggle: straggle(b.Cell)}
	id := uint16(0)
	for _, stream := range phase.Streams {
		from, to, err := b.ports(stream)
		if err != nil {
			return config, fmt.Errorf("stream %s: %w", stream.Name, err)
		}
		direction := findDirection(&config, from, to)
		for k := range stream.Count {
			entry, err := b.stream(id, k, stream)
			if err != nil {
				return config, fmt.Errorf("stream %s: %w", stream.Name, err)
			}
			direction.Schedule.Streams = append(direction.Schedule.Streams, entry)
			id++
		}
		direction.Schedule.Duration = max(direction.Schedule.Duration, stream.Start+stream.Duration+time.Second)
	}
	return config, nil
}

func findDirection(config *session.Config, from, to session.Port) *session.Direction {
	for i := range config.Directions {
		if d := &config.Directions[i]; d.From.String() == from.String() && d.To.String() == to.String() {
			return d
		}
	}
	config.Directions = append(config.Directions, session.Direction{From: from, To: to, Schedule: tester.Schedule{Batch: 1}})
	return &config.Directions[len(config.Directions)-1]
}

// stream is number k of several equal streams, which send in rotation.
func (b *Bench) stream(id uint16, k int, s scenario.TesterStream) (tester.Stream, error) {
	source, hasSource := b.Cell.Address(s.From, s.Family)
	destination, hasDestination := b.Cell.Address(s.To, s.Family)
	if !hasSource || !hasDestination {
		return tester.Stream{}, fmt.Errorf("%s or %s has no IPv%d address", s.From, s.To, s.Family)
	}
	name, each, all := s.Name, s.Rate/float64(s.Count), uint64(s.Rate*s.Duration.Seconds())
	if s.Count > 1 {
		name = fmt.Sprintf("%s %d", s.Name, k+1)
	}
	return tester.Stream{
		ID: id, Name: name, Stamped: true, Start: s.Start + time.Duration(float64(k)*float64(time.Second)/s.Rate),
		Header: tester.Header{Source: source, Destination: destination, SourcePort: firstPort + id, DestinationPort: echo, DSCP: s.DSCP},
		Sizes:  []tester.SizeShare{{Size: s.FrameSize, Weight: 1}},
		Gap:    time.Duration(float64(time.Second) / each), Frames: (all + uint64(s.Count-1-k)) / uint64(s.Count),
	}, nil
}

const (
	firstPort = 49152
	echo      = 7 // the UDP port of RFC 2544's test frames (appendix C.2.6.4)
)

// straggle is the maximum time of frames after the last one sent.
func straggle(cell *scenario.Cell) time.Duration {
	wait := session.DefaultStraggle
	for _, l := range cell.Links {
		wait += 2 * (max(l.Forward.Delay, l.Reverse.Delay) + 4*max(l.Forward.Jitter, l.Reverse.Jitter))
	}
	return wait
}

// ports returns the devices by which a stream leaves its sender and reaches its receiver.
func (b *Bench) ports(s scenario.TesterStream) (from, to session.Port, err error) {
	hops, err := b.hops(s.From, s.To, s.Family)
	if err != nil {
		return from, to, err
	}
	return b.port(hops[0]), b.port(hops[len(hops)-1]), nil
}

// hops returns the indices in Topology.Ends of a frame's path between two nodes: for each link the
// end where it leaves a node and the end where it enters the next.
func (b *Bench) hops(from, to string, family int) (hops []int, err error) {
	address, ok := b.Cell.Address(to, family)
	if !ok {
		return nil, fmt.Errorf("%s has no IPv%d address", to, family)
	}
	here := from
	for range len(b.Cell.Nodes) {
		index := b.towards(here, address)
		if index < 0 {
			return nil, fmt.Errorf("%s has no route to %s", here, address)
		}
		hops = append(hops, index, index^1)
		if here = b.Topology.Ends[index^1].Node; here == to {
			return hops, nil
		}
	}
	return nil, fmt.Errorf("the route from %s to %s ends nowhere", from, to)
}

// towards is the index in Topology.Ends of a node's device for an address: by a route, else by a
// link with that address.
func (b *Bench) towards(node string, address netip.Addr) int {
	via := ""
	for _, route := range b.Cell.Routes {
		if route.From == node && route.To.Contains(address) {
			via = route.Via
		}
	}
	for i, end := range b.Topology.Ends {
		l := b.Cell.Links[i/2]
		direct := l.AddressA4.Contains(address) || l.AddressA6.Contains(address)
		if end.Node == node && (via == l.Name || via == "" && direct) {
			return i
		}
	}
	return -1
}

func (b *Bench) port(index int) session.Port {
	end := b.Topology.Ends[index]
	return session.Port{Name: end.Node, Namespace: b.Topology.Nodes[end.Node], Device: end.Device}
}
