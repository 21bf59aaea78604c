// SPDX-License-Identifier: Apache-2.0

// Package server is a measurement site: ndt7 and msak in clear and over TLS, latency tests, a
// Locate-compatible /v2/nearest for itself, /health and metrics.
//
// Anyone may connect, so each client costs bounded memory and time: 5 s for a handshake, 4 s beyond
// the duration of a test, 16 KiB of request header, and a bounded number of connections a client
// block.
package server

import (
	"log/slog"
	"runtime"
	"time"

	"weir/measure/msak"
	"weir/measure/record"
	"weir/measure/token"
)

// Config describes a site. Clear and Secure are addresses such as ":80"; "" listens on none.
type Config struct {
	Clear, Secure string
	Latency       string // UDP address of latency tests; "" for none
	Metrics       string // address of metrics and /health; "" for none
	Certificate   *Certificate
	MaxTests      int
	Tokens        *token.Verifier // of access tokens; nil requires none
	Store         record.Store
	Log           *slog.Logger
	Congestion    string // of each connection; the host's default if the kernel lacks it
	Version       string
	Commit        string

	// TestDuration shortens the tests of a test; 0 is the protocol's 10 s.
	TestDuration time.Duration
	// TestSilence shortens the time after which a test's upload without payload ends; 0 is 3 s.
	TestSilence time.Duration

	// drainTime and answerTime replace maxDrain and idleTime in tests; 0 keeps them.
	drainTime, answerTime time.Duration
}

// DefaultMaxTests is the bound of running tests without a measurement of the host: it is no
// statement about the rate that the host carries.
func DefaultMaxTests() int { return 25 * runtime.NumCPU() }

const (
	handshakeTime = 5 * time.Second
	idleTime      = 15 * time.Second
	maxHeader     = 16 << 10
	storeTime     = 30 * time.Second
	// maxDrain is the time after which a stopping site ends its tests.
	maxDrain = msak.MaxDuration + storeTime + time.Second
	// resultTime is the time in which clients fetch the results of the last latency tests.
	resultTime = 5 * time.Second
)
