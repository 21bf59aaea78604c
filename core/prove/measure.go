// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/core/module"
	"weir/core/prove/station"
	"weir/internal/direction"
	"weir/internal/units"
	"weir/kernel/cputime"
)

const (
	// overhead is the duration of a measurement beside its windows: two processes and some
	// handshakes.
	overhead = 150 * time.Millisecond
	// calm is the default rate of a check.
	calm units.BitRate = 1_000_000
	// headersTCP and headersUDP are the header bytes around an IPv4 payload: rates count the wire,
	// the rates of a flow count payload.
	headersTCP, headersUDP = 20 + 20 + 12 + station.Ethernet, 20 + 8 + station.Ethernet
	payloadTCP             = 1448
)

// flowOf returns the flow of a test.
func flowOf(t Test) station.Flow {
	flow := module.Flow{Rate: calm}
	if t.Check.Flow != nil {
		flow = t.Check.Flow(t.Path)
	}
	f := station.Flow{Protocol: station.Protocol(t.Path.Protocol), Connections: max(flow.Connections, 1), Reverse: t.Check.Direction == direction.Ingress}
	payload, headers := float64(payloadTCP), float64(headersTCP)
	if t.Path.Protocol == module.UDP || t.Path.Protocol == module.QUIC {
		f.Connections, payload, headers = 1, station.Payload, headersUDP
	}
	f.Size = flow.Size
	f.Rate = units.BitRate(float64(flow.Rate) * payload / (payload + headers))
	return f
}

// congestionOf returns the congestion control of the flow of a test; "" keeps the current one.
func (r *runner) congestionOf(t Test) string {
	if t.Check.Flow != nil && t.Check.Flow(t.Path).KeepCongestion {
		return ""
	}
	return r.o.Congestion
}

// meter reads the counters of one part of a scope.
type meter struct {
	module, scope, part string
	charged             module.Charge
	counters            []string // required, beside those of charged
}

func (t Test) meter() *meter {
	return &meter{t.Module, t.Scope.Name, t.Check.Part, t.Check.Charged, t.Check.Counters}
}

// counters are a reading by name.
type counters map[string]uint64

// since returns the difference to an earlier reading.
func (c counters) since(before counters) counters {
	grown := counters{}
	for name, n := range c {
		grown[name] = n - min(before[name], n)
	}
	return grown
}

// read reads the counters of a meter; nil has none.
func (r *runner) read(m *meter) (counters, error) {
	if m == nil {
		return counters{}, nil
	}
	status, err := r.o.Engine.Status()
	if err != nil {
		return nil, err
	}
	for _, one := range status.Modules {
		for _, row := range one.Rows {
			if one.Module != m.module || row.Scope != m.scope || row.Part != m.part || row.Values == nil {
				continue
			}
			c := counters{}
			for _, column := range one.Columns {
				if value, known := row.Values[column.Name]; known && column.Kind == module.Counter {
					c[column.Name] = value.Count
				}
			}
			return c, m.complete(c)
		}
	}
	if m.charged.Octets == "" && len(m.counters) == 0 {
		return counters{}, nil
	}
	return nil, fmt.Errorf("the scope %s is no longer active", m.scope)
}

// complete returns an error for missing counters of a check.
func (m *meter) complete(c counters) error {
	names := append([]string{m.charged.Octets, m.charged.Packets, m.charged.Segments, m.charged.Dropped}, m.counters...)
	for _, name := range names {
		if _, there := c[name]; name != "" && !there {
			return fmt.Errorf("%s reports no counter %q of the scope %s", m.module, name, m.scope)
		}
	}
	return nil
}

// edge holds the readings at the start and the end of a measurement.
type edge struct {
	at       time.Time
	mono     time.Duration // on the clock of probes
	counters counters
	cpu      cputime.Spent
}

func (r *runner) edge(m *meter) (e edge, err error) {
	e.at = time.Now()
	if e.mono, err = station.Monotonic(); err != nil {
		return e, err
	}
	if e.counters, err = r.read(m); err != nil {
		return e, err
	}
	e.cpu, err = cputime.Read()
	return e, err
}

// measure sends one flow on a route and returns the received traffic, with the counters of a meter,
// which may be nil. probing is the rate of small packets beside it, in bit/s of wire bytes; 0 sends
// none.
func (r *runner) measure(ctx context.Context, at route, f station.Flow, m *meter, probing units.BitRate, warm, duration time.Duration) (s module.Sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, quietOf(probing)+warm+duration+30*time.Second)
	defer cancel()
	before, err := r.edge(m)
	if err != nil {
		return s, err
	}
	beside, err := r.probe(ctx, at, probing)
	if err != nil {
		return s, err
	}
	defer beside.close()
	pair, err := r.connect(ctx, at, f)
	if err != nil {
		return s, err
	}
	defer pair.Close()
	if err := beside.begins(); err != nil {
		return s, err
	}
	var edges []edge
	measured, err := pair.Measure(ctx, warm, duration, func() error {
		e, err := r.edge(m)
		edges = append(edges, e)
		return err
	})
	if err != nil {
		return s, at.failed(err)
	}
	small, err := beside.end(ctx, edges)
	if err != nil {
		return s, at.failed(err)
	}
	after, err := r.edge(m)
	if err != nil {
		return s, err
	}
	first, last := edges[0], edges[1]
	got, size := measured.Received, station.Datagram(at.peer.Target.Addr())
	s.Counters = last.counters.since(first.counters)
	s.Drops = m.unread(got, s.Counters)
	s.Received = float64(got.Wire+s.Drops*size+small.during) * 8 / got.At.Seconds()
	s.Left, s.Again, s.Probes = measured.Left, measured.Again, small.Probes
	s.Busy = last.cpu.BusySince(first.cpu)
	s.Delay = max(0, measured.Delay.Mean-measured.Delay.Idle)
	s.Congestion, s.DSCPs = measured.Congestion, measured.DSCPs
	whole, arrived := after.counters.since(before.counters), measured.All.Wire+small.all
	arrived += m.unread(measured.All, whole) * size
	switch f.Protocol {
	case station.Short:
		arrived = uint64(len(measured.Transfers) * wireOf(f.Size))
		if err := short(&s, f.Size, measured.Transfers, edges); err != nil {
			return s, err
		}
	case station.QUIC:
		s.Again = s.Left - min(s.Left, measured.All.Octets+m.unread(measured.All, whole)*station.Payload)
	}
	if m != nil && m.charged.Octets != "" {
		s.Charged = float64(s.Counters[m.charged.Octets]) * 8 / last.at.Sub(first.at).Seconds()
		s.Quotient = float64(whole[m.charged.Octets]) / float64(max(arrived, 1))
	}
	return s, nil
}

// unread returns the number of datagrams that arrived but were not read because the receive buffer
// was full. Drops by the module at the receiving socket are subtracted, because the socket counts
// them too.
func (m *meter) unread(t station.Tally, c counters) uint64 {
	if m == nil || m.charged.Dropped == "" {
		return t.Drops
	}
	return t.Drops - min(t.Drops, c[m.charged.Dropped])
}

// short adds the transfers that started during the measurement: the rate of their mean duration,
// one after the other.
func short(s *module.Sample, size int, transfers []station.Echo, edges []edge) error {
	var all time.Duration
	for _, one := range transfers {
		if one.At >= edges[0].mono && one.At < edges[1].mono {
			s.Transfers, all = append(s.Transfers, one.RTT), all+one.RTT
		}
	}
	if len(s.Transfers) == 0 {
		return errors.New("no transfer began while it was measured: give a longer --duration")
	}
	s.Received = float64(wireOf(size)*len(s.Transfers)) * 8 / all.Seconds()
	return nil
}

// wireOf returns the bytes of a TCP transfer on the wire, without handshakes.
func wireOf(size int) int { return size + (size+payloadTCP-1)/payloadTCP*headersTCP }
