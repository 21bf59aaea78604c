// SPDX-License-Identifier: Apache-2.0

package police

import "time"

// tunables are the constants of the data plane's algorithm. limit.h says what each is, and its
// unit.
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
	MaxOffered:           768,
	MaxDrained:           256,
	ToleratedShift:        2,
	MaxDoublings:         10,
	PromptFrames:          32,
	FlowCountSuperPackets: 16,
	FlowCountRtts:         2,
	MaxIntervalNs:        uint64(4 * time.Second),
	MaxElapsedNs:         uint64(5 * time.Second),
	SilenceNs:             uint64(8 * time.Second),
	OversizeNs:            uint64(250 * time.Millisecond),

	MinAllowed:      uint64(MinRate) / 8,
	MinUnit:         1024,
	MaxFollowNs:      uint64(100 * time.Millisecond),
	MaxCongested:     896,
	MaxRise:          1536,
	SilentIntervals:   4,
	MaxRatio:         16,
	SlowestDecayShift: 3,

	RttMeanShift: 3,

	QuotaTicks: 1,
}

// What limits are computed with before the data plane has them (rate.go).
const (
	// At rates where the frames of tunables take less, these are the thresholds.
	minBurst   = 1200 * time.Microsecond
	minMark    = 2 * time.Millisecond
	minDrop    = 10 * time.Millisecond
	minReserve = 200 * time.Microsecond
	// minHorizon is the drop threshold of a limit by delay.
	minHorizon = 200 * time.Millisecond
	// ingressSlackShift makes a packet dearer at ingress by 1/256: where packets are dropped,
	// traffic takes all that the virtual queue admits, and what the queue's length allows more in
	// some seconds must not bring it above the limit.
	ingressSlackShift = 8
	// quotaParts is how many quotas of a socket fit into the burst.
	quotaParts = 16
	// maxQuota, in octets, keeps a quota below what a processor sends in a tick.
	maxQuota = 1 << 20
)
