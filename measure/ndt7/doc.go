// SPDX-License-Identifier: Apache-2.0

// Package ndt7 is the protocol ndt7 of Measurement Lab (ndt-server spec/ndt7-protocol.md v0.11.0)
// on an open WebSocket connection: [Serve] is the server of a test, [Measure] the client.
//
// The sender of bulk data bounds its own queue: TCP_NOTSENT_LOWAT is 10 ms of the rate, and one
// message takes at most 50 ms. Otherwise text messages of slow links wait for seconds behind
// unsent data in the socket.
package ndt7

import (
	"time"

	"weir/measure/websocket"
)

// Subprotocol is the value of Sec-WebSocket-Protocol.
const Subprotocol = "net.measurementlab.ndt.v7"

// Paths of the two tests.
const (
	DownloadPath = "/ndt/v7/download"
	UploadPath   = "/ndt/v7/upload"
)

// MaxQuery is the longest query string of an upgrade request in bytes.
const MaxQuery = 4096

const (
	// Duration is the time in which a test sends bulk data.
	Duration = 10 * time.Second
	// MaxDuration is the time after which a test ends without a Close from the peer.
	MaxDuration = 13 * time.Second
	// maxSilence is the share of Duration, 3 s, after which an upload without payload ends.
	maxSilence = 0.3

	// Text messages follow a Poisson process of this mean, clamped to the two limits.
	meanPause = 250 * time.Millisecond
	minPause  = 25 * time.Millisecond
	maxPause  = 625 * time.Millisecond

	firstMessage = 1 << 13 // bytes of the first binary message
	minMessage   = 1 << 12 // bytes of a message on slow links
	messageTime  = 50 * time.Millisecond
)

// Limits of a peer: messages of the specification's maximum, and bounded text.
var Limits = websocket.Limits{Text: 64 << 10, Binary: 1 << 24, Messages: 1000}
