// SPDX-License-Identifier: Apache-2.0

// Package latency is the protocol latency1 of Measurement Lab's MSAK (m-lab/msak 772318a):
// round-trip times of UDP datagrams that the client echoes. [Sessions] is the server, [Measure] the
// client.
//
// A client authorizes a test over HTTP and then sends one datagram. The server sends only to the
// address that authorized the test, and before its first echo only a few datagrams, so that forged
// datagrams draw no traffic to others. An echo counts once, from the test's own address and port,
// and with a sequence number that was sent.
package latency

import (
	"encoding/json"
	"fmt"
	"time"

	"weir/measure/session"
)

// Paths of the two requests.
const (
	AuthorizePath = "/latency/v1/authorize"
	ResultPath    = "/latency/v1/result"
)

// DefaultPort is the UDP port of Measurement Lab's client.
const DefaultPort = 1053

const (
	// Duration is the time in which a server sends datagrams.
	Duration = 5 * time.Second
	// Grace is the time after it in which echoes still count.
	Grace = time.Second
	// Keep is the time after a test's authorization in which its result can be fetched.
	Keep = time.Minute
	// startTime is the time in which the client's first datagram must arrive.
	startTime = 10 * time.Second

	// A client without an echo yet gets freeDatagrams at the usual pace, then one each slowPause.
	freeDatagrams = 4
	slowPause     = 500 * time.Millisecond

	maxDatagram = 1024 // bytes
)

var pace = session.Pace{Mean: 25 * time.Millisecond, Min: 10 * time.Millisecond, Max: 40 * time.Millisecond}

// Types of datagrams.
const (
	typeKickoff = "c2s" // the client's first datagram
	typeProbe   = "s2c" // a datagram of the server, and its echo
)

// Packet is a datagram.
type Packet struct {
	Type    string
	ID      string // measurement ID
	Seq     int
	LastRTT int `json:",omitempty"` // µs
}

// parse decodes a datagram. Its sequence number is not negative.
func parse(datagram []byte) (p Packet, err error) {
	if len(datagram) > maxDatagram {
		return p, fmt.Errorf("the datagram has more than %d bytes", maxDatagram)
	}
	if err := json.Unmarshal(datagram, &p); err != nil {
		return p, err
	}
	switch {
	case p.Type != typeKickoff && p.Type != typeProbe:
		return p, fmt.Errorf("the type is neither %s nor %s", typeKickoff, typeProbe)
	case p.Seq < 0:
		return p, fmt.Errorf("the sequence number %d is negative", p.Seq)
	}
	return p, nil
}
