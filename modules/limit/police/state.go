// SPDX-License-Identifier: Apache-2.0

package police

import (
	"errors"
	"fmt"
	"time"

	"weir/internal/units"
	"weir/kernel/clock"
)

// State is the current state of one direction of a scope, at its last packet or later; without
// traffic the fair rate stays.
type State struct {
	FairRate units.BitRate `json:"fair_rate"` // bit/s at which one TCP flow is paced
	Allowed  units.BitRate `json:"allowed"`   // bit/s that the scope may use; below its limit while siblings share the parent
	Unit     units.BitRate `json:"unit"`      // bit/s per unit of weight for children
	Queue    time.Duration `json:"queue"`     // length of the virtual queue; 0 for an idle scope
}

// State reads the state of one direction of a scope.
func (p *DataPlane) State(scope int, direction Direction) (State, error) {
	if err := p.known(scope); err != nil {
		return State{}, err
	}
	index := uint32(2*scope) + uint32(direction)
	var state limitLimitState
	var share limitLimitFairShare
	var config limitLimitConfig
	if err := errors.Join(p.objects.LimitStates.Lookup(index, &state), p.objects.LimitShares.Lookup(index, &share),
		p.objects.LimitConfigs.Lookup(index, &config)); err != nil {
		return State{}, fmt.Errorf("read state of scope %d: %w", scope, err)
	}
	allowed := config.Rate
	if config.Weight > 0 && share.Allowed > 0 {
		allowed = min(allowed, share.Allowed)
	}
	return State{
		FairRate: units.BitRate(state.FairRate * 8),
		Allowed:  units.BitRate(allowed * 8),
		Unit:     units.BitRate(share.Unit * 8 >> limitLimitFormatLIMIT_UNIT_SHIFT),
		Queue:    time.Duration(max(0, state.FinishNs-clock.Now())),
	}, nil
}

// shorten scales the virtual queue of a limit to a higher rate, as lease.bpf.c does for granted
// rates: the queue is a time at the former rate, and would close the scope for that time. Charges
// of packets within the microseconds between reading and writing are lost.
func (p *DataPlane) shorten(index uint32, cost uint64) error {
	var before limitLimitConfig
	var state limitLimitState
	if err := errors.Join(p.objects.LimitConfigs.Lookup(index, &before), p.objects.LimitStates.Lookup(index, &state)); err != nil {
		return err
	}
	now := clock.Now()
	queue := state.FinishNs - now
	if cost >= before.Cost || queue <= 0 {
		return nil
	}
	state.FinishNs = now + int64(float64(queue)*float64(cost)/float64(before.Cost))
	return p.objects.LimitStates.Put(index, &state)
}
