// SPDX-License-Identifier: Apache-2.0

package police

import "time"

// tunables are the constants of the data plane's algorithm; limit.h has their meanings and units.
var tunables = limitLimitTunables{
	SmallOctets:   128,
	BurstFrames:   4,
	MarkFrames:    8,
	DropFrames:    40,
	ReserveFrames: 2,
	CeilingDrops:  4,

	TargetShare:           1016,
	HeadroomShift:         2,
	IngressHeadroomShift:  4,
	MaxOffered:            768,
	MaxDrained:            256,
	ToleratedShift:        2,
	MaxDoublings:          10,
	PromptFrames:          32,
	FlowCountSuperPackets: 16,
	FlowCountRtts:         2,
	MaxIntervalNs:         uint64(4 * time.Second),
	MaxElapsedNs:          uint64(5 * time.Second),
	SilenceNs:             uint64(8 * time.Second),
	OversizeNs:            uint64(250 * time.Millisecond),

	MinAllowed:        uint64(MinRate) / 8,
	MinUnit:           1024,
	MaxFollowNs:       uint64(100 * time.Millisecond),
	MaxCongested:      896,
	MaxRise:           1536,
	SilentIntervals:   4,
	MaxRatio:          16,
	SlowestDecayShift: 3,

	RttMeanShift: 3,

	QuotaTicks: 1,
}

// Constants for user space (rate.go).
const (
	// Minimum thresholds, which apply at high rates.
	minBurst   = 1200 * time.Microsecond
	minMark    = 2 * time.Millisecond
	minDrop    = 10 * time.Millisecond
	minReserve = 200 * time.Microsecond
	// minHorizon is the minimum drop threshold of a shaper.
	minHorizon = 200 * time.Millisecond
	// ingressSlackShift raises the charge of an ingress packet by 1/256: senders use all that the
	// virtual queue admits, and variations of its length over some seconds must not exceed the
	// limit.
	ingressSlackShift = 8
	// quotaParts is the ratio of the burst to the quota of a socket.
	quotaParts = 16
	// maxQuota in bytes is below the amount that a CPU sends in a tick.
	maxQuota = 1 << 20
)
