// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"context"
	"time"
)

// Config is a whole benchmark. Make one with [Standard] or [Quick] and change fields of it.
type Config struct {
	Setup
	// Durations of sending.
	SearchTime, FinalTime       time.Duration // throughput: trials of the search, and the deciding ones (section 24: 60 s)
	LatencyTime                 time.Duration // section 26.2: 120 s
	LossTime                    time.Duration
	MaxBurst                    time.Duration // longest burst (RFC 9004 section 6.2: up to 30 s)
	OverloadTime, RecoveredTime time.Duration // section 26.5
	ResetTime                   time.Duration // maximum wait for a silence to end
	// Waits of section 23.
	RouteWait, LearnWait, ResidualWait, RestWait time.Duration

	Resolution    float64 // throughput: relative width of the interval at which the search ends
	Acceptable    float64 // share of the frames that a passing trial may lose; 0 by RFC 2544
	Verify        int     // repetitions of a trial that lost frames before it counts as failing
	VerifyFinal   int     // the same for the deciding long trials
	Attempts      int     // tries for one valid trial
	LatencyRuns   int     // section 26.2: 20
	BurstRuns     int     // section 26.4: 50
	RecoveryRuns  int
	BurstStep     int     // frames: smallest step of the search for a burst length
	LossStep      float64 // share of the maximum rate; at most 0.1
	ConfirmBelow  int     // number of rates tried below a failing final trial
	MaxShort      float64 // share by which the offered rate of a valid trial may fall short
	MaxLate       float64 // share of frames that may leave late
	MaxSteal      float64 // share of CPU time that the host may take away
	MaxOthers     float64 // share of CPU time that other programs may spend in user space, with an external device
	MaxWaited     float64 // share of a trial with losses during which the device's threads may wait for their CPU
	IsQuick       bool
	ResetKinds    []ResetKind
	Progress      func(format string, args ...any) // may be nil
	Pause         func(ctx context.Context, d time.Duration) error
	HighestOffers float64 // frame/s: upper bound of all rates; 0 is none
}

// ResetKind is a way to reset the device, and the function that triggers it.
type ResetKind struct {
	Name    string // "software", "hardware", "power interruption"
	Trigger func(context.Context) error
}

// Standard is the procedure of RFC 2544 with its durations and repetitions.
func Standard(setup Setup) Config {
	return Config{
		Setup:      setup,
		SearchTime: 5 * time.Second, FinalTime: 60 * time.Second, LatencyTime: 120 * time.Second, LossTime: 60 * time.Second,
		MaxBurst: 30 * time.Second, OverloadTime: 60 * time.Second, RecoveredTime: 10 * time.Second, ResetTime: 5 * time.Minute,
		RouteWait: 2 * time.Second, LearnWait: 2 * time.Second, ResidualWait: 2 * time.Second, RestWait: 5 * time.Second,
		Resolution: 0.005, Verify: 2, VerifyFinal: 2, Attempts: 5, LatencyRuns: 20, BurstRuns: 50, RecoveryRuns: 3, BurstStep: 1,
		LossStep: 0.1, ConfirmBelow: 20, MaxShort: 0.01, MaxLate: 0.05, MaxSteal: 0.05, MaxOthers: 0.1, MaxWaited: 0.05,
	}
}

// Quick is a first look: short trials, few repetitions, short waits. Its report is marked as one.
func Quick(setup Setup) Config {
	c := Standard(setup)
	c.SearchTime, c.FinalTime, c.LatencyTime, c.LossTime = 500*time.Millisecond, 2*time.Second, 2*time.Second, time.Second
	c.MaxBurst, c.OverloadTime, c.RecoveredTime = 500*time.Millisecond, time.Second, time.Second
	c.RouteWait, c.LearnWait, c.ResidualWait, c.RestWait = 0, 100*time.Millisecond, 200*time.Millisecond, 100*time.Millisecond
	c.ResetTime = 30 * time.Second
	c.Resolution, c.LatencyRuns, c.BurstRuns, c.RecoveryRuns, c.BurstStep = 0.02, 3, 3, 1, 16
	c.IsQuick = true
	return c
}

// OnSharedMachine adapts the configuration to a device under test that shares its machine with the
// tester and other programs. The kernel grants these 5 % of each CPU, so the offered rate may fall
// short by more than that (the result is the rate sent), and a valid trial may take many attempts.
func (c Config) OnSharedMachine() Config {
	c.MaxShort, c.Attempts = 0.08, 20
	return c
}

func (c Config) say(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(format, args...)
	}
}

// pause waits for d, or until ctx ends.
func (c Config) pause(ctx context.Context, d time.Duration) error {
	if c.Pause != nil {
		return c.Pause(ctx, d)
	}
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
