// SPDX-License-Identifier: Apache-2.0

// Package ndt7 is the protocol ndt7 of Measurement Lab (ndt-server spec/ndt7-protocol.md v0.11.0):
// [Serve] is the server of a test, [Measure] the client. Package session runs the test itself.
package ndt7

import (
	"time"

	"weir/measure/session"
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
	MaxDuration = Duration + session.CloseTime

	firstMessage = 1 << 13 // bytes of the first binary message
)

var pace = session.Pace{Mean: 250 * time.Millisecond, Min: 25 * time.Millisecond, Max: 625 * time.Millisecond}
