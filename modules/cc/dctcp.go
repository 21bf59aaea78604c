// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"encoding/binary"
	"fmt"
	"time"
)

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" -target bpfel -no-global-types -type cc_event -type cc_event_kind dctcp dctcp.bpf.c

const aboutDCTCP = `dctcp is DCTCP (RFC 8257), for paths with queues that mark at a low threshold; it must
not share a queue with conventional TCP. Both ends must have it, or another DCTCP,
before the handshake: its SYN is ECN-capable, and a Linux listener without DCTCP then
refuses ECN. A connection without ECN continues as Reno. A server that chooses DCTCP
after accept(), as iperf3 -C does, therefore gets Reno: use the default of its network
namespace (net.ipv4.tcp_congestion_control) or --cgroup.`

// dctcp is RFC 8257.
func dctcp() algorithm {
	return algorithm{name: "dctcp", load: loadDctcp, ops: dctcpMapWeirDctcp, needsECN: true, about: aboutDCTCP,
		traces: traced{events: dctcpMapDctcpEvents, constant: dctcpVarDctcpTracing, decode: decodeEvent}}
}

// One is the alpha of a path on which every octet meets congestion.
const One = 65536

// Kind is the kind of an [Event].
type Kind uint32

const (
	Start  Kind = Kind(dctcpCcEventKindCC_EVENT_START)  // the control takes over a connection
	Ack    Kind = Kind(dctcpCcEventKindCC_EVENT_ACK)    // an acknowledgment was processed
	Reduce Kind = Kind(dctcpCcEventKindCC_EVENT_REDUCE) // the kernel requests a new slow start threshold: Threshold
)

// Event is one step of DCTCP on one connection. Sequence numbers are TCP's and wrap.
type Event struct {
	Kind                Kind
	Time                time.Duration // on the monotonic clock
	LocalPort, PeerPort uint16
	Una, Next           uint32 // SND.UNA and SND.NXT
	WindowEnd           uint32 // DCTCP.WindowEnd after this step
	Acked               uint32 // bytes newly covered by this acknowledgment
	Echo                bool   // it carried ECE
	Alpha               uint32 // after this step, of [One]
	Window, Threshold   uint32 // segments
}

// decodeEvent reads a struct cc_event.
func decodeEvent(sample []byte) (Event, error) {
	var raw dctcpCcEvent
	if _, err := binary.Decode(sample, binary.NativeEndian, &raw); err != nil {
		return Event{}, fmt.Errorf("decode event of %d octets: %w", len(sample), err)
	}
	return Event{
		Kind: Kind(raw.Kind), Time: time.Duration(raw.Time), LocalPort: raw.LocalPort, PeerPort: raw.PeerPort,
		Una: raw.Una, Next: raw.Nxt, WindowEnd: raw.WindowEnd, Acked: raw.Acked, Echo: raw.Echo != 0,
		Alpha: raw.Alpha, Window: raw.Cwnd, Threshold: raw.Ssthresh,
	}, nil
}
