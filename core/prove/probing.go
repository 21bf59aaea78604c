// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"context"
	"time"

	"weir/core/module"
	"weir/core/prove/station"
	"weir/internal/units"
	"weir/internal/wait"
)

const (
	// probesRate is the maximum number of small packets per second; probesPart is their maximum
	// share of a promise, so that the flow keeps the rest.
	probesRate = 100
	probesPart = 100
	// quietTrips is the number of round trips without the flow, unless they take longer than
	// maxQuiet.
	quietTrips = 20
	maxQuiet   = time.Second
)

// probing returns the rate of small packets beside the flow of a test, in bit/s on the wire; 0 is
// none.
func (t Test) probing() units.BitRate {
	if !t.Check.Probed || t.Path.Protocol != module.TCP {
		return 0
	}
	most := units.BitRate(probesRate * 8 * probeOctets)
	if t.Check.Promise == 0 {
		return most
	}
	return min(most, t.Check.Promise/probesPart)
}

// probeOctets is the size of a small packet on the wire with IPv4, the basis of rates.
const probeOctets = station.ProbePayload + headersUDP

// quietOf returns the time of small packets without the flow.
func quietOf(probing units.BitRate) time.Duration {
	if probing == 0 {
		return 0
	}
	return min(maxQuiet, time.Duration(quietTrips*8e9*probeOctets/float64(probing)))
}

// beside holds the small packets of one measurement; nil has none.
type beside struct {
	pair   *station.Pair
	wire   uint64        // bytes of one
	loaded time.Duration // start of the flow beside them, on their clock
}

// small is the result of small packets.
type small struct {
	module.Probes
	during, all uint64 // received bytes on the wire during the measurement, and in total
}

// probe starts the small packets, and returns after enough of them without the flow.
func (r *runner) probe(ctx context.Context, at route, rate units.BitRate) (*beside, error) {
	if rate == 0 {
		return nil, nil
	}
	payload := units.BitRate(float64(rate) * station.ProbePayload / probeOctets)
	pair, err := r.connect(ctx, at, station.Flow{Protocol: station.Probe, Connections: 1, Rate: payload})
	if err != nil {
		return nil, err
	}
	if err = pair.Start(); err == nil {
		err = wait.For(ctx, quietOf(rate))
	}
	if err != nil {
		pair.Close()
		return nil, err
	}
	return &beside{pair: pair, wire: station.ProbePayload + station.Headers(at.peer.Target.Addr())}, nil
}

// begins records the start of the flow beside the small packets.
func (b *beside) begins() (err error) {
	if b != nil {
		b.loaded, err = station.Monotonic()
	}
	return err
}

func (b *beside) close() {
	if b != nil {
		b.pair.Close()
	}
}

// end ends the small packets. edges are those of the flow's measurement.
func (b *beside) end(ctx context.Context, edges []edge) (s small, err error) {
	if b == nil {
		return s, nil
	}
	echoes, err := b.pair.Probed(ctx)
	if err != nil {
		return s, err
	}
	return b.sum(echoes, edges[0].mono, edges[1].mono), nil
}

// sum groups small packets by their send time: without the flow, during its measurement from first
// to last, or in between.
func (b *beside) sum(echoes []station.Echo, first, last time.Duration) (s small) {
	for _, e := range echoes {
		if e.RTT > 0 {
			s.all += b.wire
		}
		switch during := e.At >= first && e.At < last; {
		case during && e.RTT == 0:
			s.Sent, s.Lost = s.Sent+1, s.Lost+1
		case during:
			s.Sent, s.during, s.Load = s.Sent+1, s.during+b.wire, append(s.Load, e.RTT)
		case e.RTT > 0 && e.At+e.RTT < b.loaded:
			s.Idle = append(s.Idle, e.RTT)
		}
	}
	return s
}
