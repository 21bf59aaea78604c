// SPDX-License-Identifier: Apache-2.0

// Package msak is the protocol throughput1 of Measurement Lab's MSAK (m-lab/msak 772318a): [Serve]
// is the server of one stream, [Measure] the client. Package session runs the stream itself.
//
// A measurement has several streams, each a connection of its own with the same measurement ID. The
// client chooses duration, congestion control and a limit of bytes; [ParseOptions] bounds them.
package msak

import (
	"time"

	"weir/measure/session"
)

// Subprotocol is the value of Sec-WebSocket-Protocol.
const Subprotocol = "net.measurementlab.throughput.v1"

// Paths of the two tests.
const (
	DownloadPath = "/throughput/v1/download"
	UploadPath   = "/throughput/v1/upload"
)

const (
	// DefaultDuration is the time in which a stream sends bulk data if the client requests none.
	DefaultDuration = 5 * time.Second
	// LongestDuration is the longest time of a stream; longer requests are cut.
	LongestDuration = 25 * time.Second
	// MaxDuration is the time after which a stream ends without a Close from the peer.
	MaxDuration = LongestDuration + session.CloseTime
	// MaxStreams is the largest number of streams that a client may announce.
	MaxStreams = 64

	firstMessage = 1 << 10 // bytes of the first binary message
)

var pace = session.Pace{Mean: 250 * time.Millisecond, Min: 100 * time.Millisecond, Max: 400 * time.Millisecond}
