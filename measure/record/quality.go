// SPDX-License-Identifier: Apache-2.0

package record

import "time"

// Quality is the datatype quality1: facts about a test that Measurement Lab's formats have no field
// for. UUID joins it to the record of ndt7 or throughput1.
type Quality struct {
	Format             string // "quality1"
	UUID               string
	Direction          Direction
	Protocol           string // "ndt7" or "throughput1"
	TLS                bool
	StartTime, EndTime time.Time
	Outcome            string // "complete", "short" (the client ended it), or the reason of the failure
	Payload            uint64 // bytes of messages sent (download) or received (upload)
	CongestionControl  string // of the server's socket
	Requested          string `json:",omitempty"` // if another one was requested
	RequestedError     string `json:",omitempty"` // reason why it was not set
	Concurrent         int    // tests on this server at the start, this one included
	SamplesMissed      int    // readings of TCP_INFO that came late or failed
	Samples            Samples
	Pings              []Ping
}

// Samples are the readings of TCP_INFO each 10 ms, one list a field, all of the same length.
type Samples struct {
	ElapsedTime  []uint32 // µs since the start of the test
	RTT          []uint32 // µs, smoothed by the kernel
	SndCwnd      []uint32 // packets
	NotsentBytes []uint32 // bytes in the socket that were never sent
	Retrans      []uint32 // segments retransmitted so far
	Bytes        []uint64 // acknowledged (download) or received (upload) so far, overheads included
	DeliveryRate []uint64 // byte/s
}

// Ping is a WebSocket Ping that the client answered.
type Ping struct {
	ElapsedTime  int64 // µs since the start of the test, at the time of sending
	RTT          int64 // µs
	NotsentBytes uint32
}
