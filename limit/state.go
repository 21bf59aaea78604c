package limit

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/units"
)

// State is where one direction of a scope stands now. Both values are those of its last packet's time or later; a scope
// without traffic keeps its fair rate.
type State struct {
	FairRate units.BitRate `json:"fair_rate"` // bit/s that one TCP flow is paced at
	Queue    time.Duration `json:"queue"`     // length of the virtual queue; 0 for an idle scope
}

// State reads where one direction of a scope stands.
func (p *DataPlane) State(scope int, direction Direction) (State, error) {
	if err := p.known(scope); err != nil {
		return State{}, err
	}
	var state limitLimitState
	if err := p.objects.LimitStates.Lookup(uint32(2*scope)+uint32(direction), &state); err != nil {
		return State{}, fmt.Errorf("read state of scope %d: %w", scope, err)
	}
	var now unix.Timespec
	// The clock of bpf_ktime_get_ns.
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return State{}, fmt.Errorf("read monotonic clock: %w", err)
	}
	return State{
		FairRate: units.BitRate(state.FairRate * 8),
		Queue:    time.Duration(max(0, state.FinishNs-now.Nano())),
	}, nil
}
