// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
)

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" -target bpfel -no-global-types -type ledbat_event -type ledbat_event_kind -type ledbat_phase -type ledbat_tunables ledbat ledbat.bpf.c

const aboutLEDBAT = `ledbat is LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus): bulk traffic that uses
spare capacity and keeps the queue at 60 ms. Only the sender needs it. It yields to
traffic that makes the queue longer. If the path's whole queue is shorter than 60 ms,
it yields to loss only.`

const aboutScavenger = `scavenger is LEDBAT++ for links shared with production traffic. It aims at 5 ms of
queue, uses freed capacity within some round trips, and keeps its rate if packets are
lost without a queue. Only the sender needs it.`

// scavengerTarget is the target queueing delay of scavenger, and so the delay it adds for others.
const scavengerTarget = 5 * time.Millisecond

// ledbat is the draft.
func ledbat() algorithm {
	return algorithm{name: "ledbat", load: loadLedbat, ops: ledbatMapWeirLedbat, about: aboutLEDBAT, traces: tracedLEDBAT(),
		tune: tuned(ledbatLedbatTunables{Target: 60_000})}
}

// scavenger is the draft with the two additions that ledbat.bpf.c describes.
func scavenger() algorithm {
	a := ledbat()
	a.name, a.about = "scavenger", aboutScavenger
	a.tune = tuned(ledbatLedbatTunables{Target: uint32(scavengerTarget.Microseconds()), Explore: 1, Tolerant: 1})
	return a
}

func tuned(t ledbatLedbatTunables) func(*ebpf.CollectionSpec) error {
	return func(spec *ebpf.CollectionSpec) error { return spec.Variables[ledbatVarLedbatTuned].Set(t) }
}

func tracedLEDBAT() traced {
	return traced{events: ledbatMapLedbatEvents, constant: ledbatVarLedbatTracing, decode: decodeLEDBAT}
}

// Undo means that the kernel reverts an unfounded reduction; Threshold is the restored window.
const Undo Kind = Kind(ledbatLedbatEventKindLEDBAT_EVENT_UNDO)

// Phase is the phase of LEDBAT++.
type Phase uint32

const (
	SlowStart Phase = Phase(ledbatLedbatPhaseLEDBAT_START) // the first one
	Avoidance Phase = Phase(ledbatLedbatPhaseLEDBAT_AVOID) // congestion avoidance
	Drain     Phase = Phase(ledbatLedbatPhaseLEDBAT_DRAIN) // a slowdown: two segments for two round trips
	Climb     Phase = Phase(ledbatLedbatPhaseLEDBAT_CLIMB) // slow start after a slowdown or a timeout
)

// LEDBATEvent is one step of LEDBAT++ on a connection, with input and result.
type LEDBATEvent struct {
	Kind                Kind
	Phase               Phase
	Time                time.Duration // on the monotonic clock
	LocalPort, PeerPort uint16
	Base, Delay         time.Duration // minimum round trip of ten minutes, and the queueing delay of the last ones
	RTT                 time.Duration // smoothed
	Acked               uint32        // segments that were delivered since the last step
	Lost                uint32        // segments considered lost in this round
	Limited             bool          // the window kept the sender from sending more
	Window              float64       // segments, with a fraction in steps of 1/65536
	Threshold           uint32        // segments: of slow start
	Rate                float64       // segments per second: the kernel's last delivery-rate sample
	Flight              uint32        // segments that are sent and not acknowledged
}

// decodeLEDBAT reads a struct ledbat_event.
func decodeLEDBAT(sample []byte) (LEDBATEvent, error) {
	var raw ledbatLedbatEvent
	if _, err := binary.Decode(sample, binary.NativeEndian, &raw); err != nil {
		return LEDBATEvent{}, fmt.Errorf("decode event of %d octets: %w", len(sample), err)
	}
	rate := 0.0
	if raw.RateInterval > 0 {
		rate = float64(raw.RateDelivered) / float64(raw.RateInterval) * 1e6
	}
	us := func(n uint32) time.Duration { return time.Duration(n) * time.Microsecond }
	return LEDBATEvent{
		Kind: Kind(raw.Kind), Phase: Phase(raw.Phase), Time: time.Duration(raw.Time),
		LocalPort: raw.LocalPort, PeerPort: raw.PeerPort,
		Base: us(raw.Base), Delay: us(raw.Delay), RTT: us(raw.Srtt), Acked: raw.Acked, Lost: raw.Lost, Limited: raw.Limited != 0,
		Window: float64(raw.Cwnd) + float64(raw.Part)/65536, Threshold: raw.Ssthresh,
		Rate: rate, Flight: raw.Flight,
	}, nil
}
