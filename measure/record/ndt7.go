// SPDX-License-Identifier: Apache-2.0

package record

import "time"

// Direction is the direction of a test as the client sees it.
type Direction string

const (
	Download Direction = "download"
	Upload   Direction = "upload"
)

// Measurement is a text message of ndt7 and an entry of its archive.
type Measurement struct {
	AppInfo        *AppInfo        `json:",omitempty"`
	ConnectionInfo *ConnectionInfo `json:",omitempty"`
	BBRInfo        *BBRInfo        `json:",omitempty"`
	TCPInfo        *TCPInfo        `json:",omitempty"`
	Origin         string          `json:",omitempty"` // "client" or "server"
	Test           Direction       `json:",omitempty"`
}

// AppInfo counts the payload of binary and text messages, as Measurement Lab's clients do.
type AppInfo struct {
	NumBytes    int64
	ElapsedTime int64 // µs since the start of the test
}

// ConnectionInfo names the connection; only servers send it.
type ConnectionInfo struct {
	Client    string // address and port
	Server    string // address and port
	UUID      string `json:",omitempty"`
	StartTime time.Time
}

// BBRInfo is the state of BBR (struct tcp_bbr_info); all zero under another congestion control.
type BBRInfo struct {
	BW          int64  // byte/s
	MinRTT      uint32 // µs
	PacingGain  uint32 // << 8
	CwndGain    uint32 // << 8
	ElapsedTime int64  // µs since the start of the test
}

// TCPInfo is struct tcp_info of linux/tcp.h, up to the fields that Measurement Lab's schema has.
// Times are in µs unless noted.
type TCPInfo struct {
	State, CAState, Retransmits, Probes, Backoff, Options, WScale, AppLimited uint8

	RTO, ATO, SndMSS, RcvMSS                             uint32
	Unacked, Sacked, Lost, Retrans, Fackets              uint32 // packets
	LastDataSent, LastAckSent, LastDataRecv, LastAckRecv uint32 // ms
	PMTU, RcvSsThresh, RTT, RTTVar, SndSsThresh, SndCwnd uint32
	AdvMSS, Reordering, RcvRTT, RcvSpace, TotalRetrans   uint32
	PacingRate, MaxPacingRate                            int64 // byte/s; -1: unlimited
	BytesAcked, BytesReceived                            int64
	SegsOut, SegsIn, NotsentBytes, MinRTT                uint32
	DataSegsIn, DataSegsOut                              uint32
	DeliveryRate                                         int64 // byte/s
	BusyTime, RWndLimited, SndBufLimited                 int64
	Delivered, DeliveredCE                               uint32
	BytesSent, BytesRetrans                              int64
	DSackDups, ReordSeen, RcvOooPack, SndWnd             uint32
	ElapsedTime                                          int64 // since the start of the test, at the reading
}

// NameValue is an entry of the metadata.
type NameValue struct{ Name, Value string }

// Archival is the part of an ndt7 record that a subtest fills.
type Archival struct {
	UUID               string
	StartTime, EndTime time.Time
	ServerMeasurements []Measurement
	ClientMeasurements []Measurement
	ClientMetadata     []NameValue `json:",omitempty"`
	ServerMetadata     []NameValue `json:",omitempty"`
}

// NDT7 is the record of a test. Either Upload or Download is set.
type NDT7 struct {
	GitShortCommit     string
	Version            string
	ServerIP           string
	ServerPort         int
	ClientIP           string
	ClientPort         int
	StartTime, EndTime time.Time
	Upload             *Archival `json:",omitempty"`
	Download           *Archival `json:",omitempty"`
}
