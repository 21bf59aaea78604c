package cc

import (
	"encoding/binary"
	"fmt"
	"time"
)

// dctcp is RFC 8257.
func dctcp() algorithm {
	return algorithm{name: "dctcp", load: loadDctcp, ops: dctcpMapWeirDctcp, needsECN: true,
		traces: traced{events: dctcpMapDctcpEvents, constant: dctcpVarDctcpTracing, decode: decodeEvent}}
}

// One is the alpha of a path on which every octet meets congestion.
const One = 65536

// Kind is what happened in an [Event].
type Kind uint32

const (
	Start  Kind = Kind(dctcpCcEventKindCC_EVENT_START)  // the control has taken a connection over
	Ack    Kind = Kind(dctcpCcEventKindCC_EVENT_ACK)    // an acknowledgment was processed
	Reduce Kind = Kind(dctcpCcEventKindCC_EVENT_REDUCE) // the kernel asked for a new slow start threshold: Threshold
)

// Event is one step of DCTCP on one connection. Sequence numbers are TCP's and wrap.
type Event struct {
	Kind                Kind
	Time                time.Duration // on the monotonic clock
	LocalPort, PeerPort uint16
	Una, Next           uint32 // SND.UNA and SND.NXT
	WindowEnd           uint32 // DCTCP.WindowEnd after this step
	Acked               uint32 // octets that this acknowledgment covers first
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
