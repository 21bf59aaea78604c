// SPDX-License-Identifier: Apache-2.0

package record

import "time"

// ByteCounters count bytes since the start of a stream.
type ByteCounters struct {
	BytesSent     int64 `json:",omitempty"`
	BytesReceived int64 `json:",omitempty"`
}

// BBRState is [BBRInfo] without the time of its reading, as msak has it.
type BBRState struct {
	BW         int64  // byte/s
	MinRTT     uint32 // µs
	PacingGain uint32 // << 8
	CwndGain   uint32 // << 8
}

// StreamMeasurement is a measurement of msak's throughput1 and an entry of its archive.
type StreamMeasurement struct {
	Application ByteCounters // payload of binary and text messages
	Network     ByteCounters // bytes through the socket since the upgrade, overheads included
	ElapsedTime int64        `json:",omitempty"` // µs since the start of the stream
	BBRInfo     *BBRState    `json:",omitempty"`
	TCPInfo     *TCPInfo     `json:",omitempty"` // its ElapsedTime counts from the accept
}

// WireMeasurement is a text message of throughput1. The first message of a peer has all fields.
type WireMeasurement struct {
	CC         string `json:",omitempty"` // congestion control of the message's sender
	UUID       string `json:",omitempty"`
	LocalAddr  string `json:",omitempty"`
	RemoteAddr string `json:",omitempty"`
	StreamMeasurement
}

// Throughput is the record throughput1 of a stream. Streams of one measurement have its
// MeasurementID.
type Throughput struct {
	GitShortCommit     string
	Version            string
	Direction          Direction
	MeasurementID      string
	UUID               string
	Server             string // address and port
	Client             string // address and port
	CCAlgorithm        string // of the sender; "" if the client of an upload does not report it
	StartTime, EndTime time.Time
	ServerMeasurements []StreamMeasurement
	ClientMeasurements []StreamMeasurement
	ClientOptions      []NameValue
	ClientMetadata     []NameValue
}
