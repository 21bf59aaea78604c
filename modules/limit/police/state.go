// SPDX-License-Identifier: Apache-2.0

package police

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/units"
)

// State is where one direction of a scope stands now. Both values are those of its last packet's
// time or later; a scope without traffic keeps its fair rate.
type State struct {
	FairRate units.BitRate `json:"fair_rate"` // bit/s that one TCP flow is paced at
	Allowed  units.BitRate `json:"allowed"`   // bit/s that the scope may use; less than its limit where it shares a parent
	Unit     units.BitRate `json:"unit"`      // bit/s that the scope leaves to a child per unit of weight
	Queue    time.Duration `json:"queue"`     // length of the virtual queue; 0 for an idle scope
}

// State reads where one direction of a scope stands.
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
	var now unix.Timespec
	// The clock of bpf_ktime_get_ns.
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return State{}, fmt.Errorf("read monotonic clock: %w", err)
	}
	return State{
		FairRate: units.BitRate(state.FairRate * 8),
		Allowed:  units.BitRate(allowed * 8),
		Unit:     units.BitRate(share.Unit * 8 >> limitLimitFormatLIMIT_UNIT_SHIFT),
		Queue:    time.Duration(max(0, state.FinishNs-now.Nano())),
	}, nil
}
