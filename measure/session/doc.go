// SPDX-License-Identifier: Apache-2.0

// Package session runs a bulk test on an open WebSocket connection: [Serve] is the server's side,
// [Measure] the client's. The protocols ndt7 and msak supply the text messages and the records.
//
// The sender of bulk data bounds its own queue: TCP_NOTSENT_LOWAT is 10 ms of the rate, and one
// message takes at most 50 ms. Otherwise text messages of slow links wait for seconds behind
// unsent data in the socket.
package session

import (
	"time"

	"weir/measure/websocket"
)

const (
	// CloseTime is the time that a test may take beyond its duration.
	CloseTime = 3 * time.Second
	// MaxSilence is the time after which an upload without payload ends.
	MaxSilence = 3 * time.Second

	// closeGrace is the time for the last write and for the client's Close after ours.
	closeGrace = time.Second

	minMessage  = 1 << 12 // bytes of a message on slow links
	messageTime = 50 * time.Millisecond
)

// MaxKept is the number of a client's text messages in a record: the paces of the protocols allow
// 400 in the longest test. Further ones are dropped.
const MaxKept = 400

// Limits of a peer: messages of the specifications' maximum, and bounded text.
var Limits = websocket.Limits{Text: 64 << 10, Binary: 1 << 24, Messages: 1000}
