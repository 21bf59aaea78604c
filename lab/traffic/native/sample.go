// SPDX-License-Identifier: Apache-2.0

package native

import (
	"time"

	"weir/kernel/congestion"
	"weir/kernel/netns"
	"weir/lab/traffic"
)

// manyConnections is how many connections one sampling round reads at the full rate; more stretch
// the period.
const manyConnections = 64

// answers says that the flow's data run from its To to its From: a request flow with answers no
// smaller than the requests.
func answers(f traffic.Flow) bool { return f.Kind == traffic.Request && f.Response >= f.Request }

// sender returns the end of c that sends the flow's data, nil while there is none.
func (s *session) sender(c *connection) *socket {
	if !answers(s.flow) {
		return c.client
	}
	select {
	case <-c.accepted:
		return c.server
	default:
		return nil
	}
}

// sample reads the senders' TCP_INFO until the flow is over, and once more then.
func (s *session) sample() {
	rounds := (len(s.connections) + manyConnections - 1) / manyConnections
	ticker := time.NewTicker(samplePeriod * time.Duration(rounds))
	defer ticker.Stop()
	next := readingPeriod
	for {
		select {
		case <-ticker.C:
			at := time.Since(s.begin)
			s.observe(at, at >= next)
			for next <= at {
				next += readingPeriod
			}
		case <-s.done:
			s.observe(time.Since(s.begin), false)
			return
		}
	}
}

func (s *session) observe(at time.Duration, keep bool) {
	for _, c := range s.connections {
		socket := s.sender(c)
		if socket == nil {
			continue
		}
		info, err := socket.info()
		if err != nil {
			continue // the kernel is older than any that is supported; the figures stay zero
		}
		c.tally.observe(info)
		if keep {
			c.tally.keep(at, s.rtt)
		}
		s.receiving(c)
	}
}

// receiving samples the receiving end of a bulk flow's connection, once there is one.
func (s *session) receiving(c *connection) {
	select {
	case <-c.accepted:
	default:
		return
	}
	if s.flow.Kind != traffic.Bulk {
		return
	}
	if info, err := c.server.info(); err == nil {
		c.came.observe(time.Since(s.begin), info)
	}
}

// congestion asks the first sender for its congestion control; "" while there is none.
func (s *session) congestion() (name string) {
	if sender := s.sender(s.connections[0]); sender != nil {
		_ = sender.control(func(fd int) error {
			name = congestion.Of(fd)
			return nil
		})
	}
	return name
}

// fill writes the session's figures into result.
func (s *session) fill(result *traffic.Result, recoveries uint64, exact bool) {
	result.Streams = make([]traffic.Stream, s.flow.Streams)
	result.RTT, result.Exchanges = s.rtt, s.exchanges
	result.Congestion = s.congestion()
	srtt := make([]time.Duration, s.flow.Streams)
	count := make([]uint64, s.flow.Streams)
	timeouts := make([]uint64, s.flow.Streams)
	for _, c := range s.connections {
		stream := &result.Streams[c.stream]
		if bins := c.came.apportion(c.meter.total, len(c.meter.bins)); bins != nil {
			c.meter.bins = bins
		}
		c.meter.into(stream)
		c.tally.into(stream)
		srtt[c.stream] += c.tally.srtt
		count[c.stream] += c.tally.count
		timeouts[c.stream] += c.tally.timeouts()
		if s.flow.Bytes > 0 && c.meter.total >= uint64(s.flow.Bytes) {
			stream.Finished = c.meter.last
		}
	}
	for i, n := range count {
		if n > 0 {
			result.Streams[i].MeanRTT = srtt[i] / time.Duration(n)
		}
	}
	if exact {
		apportion(result.Streams, recoveries, timeouts)
		result.LossEventsExact = true
	}
}

// watch follows a flow's presence in its namespaces and the kernel's count of recoveries where its
// data come from.
type watch struct {
	senders   *senders
	source    *netns.Namespace
	inodes    []uint64 // the data's source first
	presences []*presence
	before    uint64
	counted   bool
}

// watch begins to watch a flow. A request flow sends from both of its hosts, a bulk flow from one.
func (g *Generator) watch(f traffic.Flow, from, to traffic.Endpoint) (*watch, error) {
	w := &watch{senders: &g.senders, source: from.Namespace}
	places := []*netns.Namespace{from.Namespace}
	switch {
	case answers(f):
		w.source, places = to.Namespace, []*netns.Namespace{to.Namespace, from.Namespace}
	case f.Kind == traffic.Request:
		places = append(places, to.Namespace)
	}
	for _, ns := range places {
		inode, err := ns.Inode()
		if err != nil {
			return nil, err
		}
		w.inodes = append(w.inodes, inode)
	}
	for _, inode := range w.inodes {
		w.presences = append(w.presences, g.senders.enter(inode))
	}
	var err error
	w.before, err = recoveriesIn(w.source)
	w.counted = err == nil // without the counters the samples' lower bound remains
	return w, nil
}

// end returns the loss recoveries of the namespace since the watch began; exact reports whether
// this flow alone can have caused them.
func (w *watch) end() (recoveries uint64, exact bool) {
	exact = w.counted
	after, err := recoveriesIn(w.source)
	for i, inode := range w.inodes {
		alone := w.senders.leave(inode, w.presences[i])
		if i == 0 && !alone {
			exact = false
		}
	}
	return after - w.before, exact && err == nil
}
