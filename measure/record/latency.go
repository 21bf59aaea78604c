// SPDX-License-Identifier: Apache-2.0

package record

import "time"

// RoundTrip is the fate of one datagram of a latency test.
type RoundTrip struct {
	RTT  int  // µs; 0 if no echo arrived
	Lost bool `json:",omitempty"`
}

// Latency is the record latency1 of msak.
type Latency struct {
	GitShortCommit     string
	Version            string
	ID                 string // measurement ID, chosen by the client
	UUID               string // of the connection that authorized the test
	Client             string // address and port of the datagrams
	Server             string
	StartTime, EndTime time.Time
	RoundTrips         []RoundTrip // by sequence number
	PacketsSent        int
	PacketsReceived    int
}

// LatencySummary is the result that a client of latency1 receives.
type LatencySummary struct {
	ID              string
	StartTime       time.Time
	RoundTrips      []RoundTrip
	PacketsSent     int
	PacketsReceived int
}
