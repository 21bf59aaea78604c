// SPDX-License-Identifier: Apache-2.0

package module

import (
	"time"

	"weir/internal/direction"
	"weir/internal/units"
)

// SharedLimit is one direction of a scope that follows a shared limit of a fleet.
type SharedLimit struct {
	Scope     string
	Direction direction.Direction
	Name      string        // of the shared limit
	Min, Max  units.BitRate // bit/s; Max 0 for none
	Weight    int
}

// MaxSharedLimits is the maximum number of shared limits of a host.
const MaxSharedLimits = 128

// MaxSharedID is the maximum length of an ID and of the name of a shared limit, in bytes.
const MaxSharedID = 128

// ID names the limit on this host: SCOPE/DIRECTION.
func (l SharedLimit) ID() string { return l.Scope + "/" + l.Direction.String() }

// RateFollower is a Plane with limits that follow shared limits. Until the first grant, and after
// each change of such a limit, it limits to its lowest rate.
type RateFollower interface {
	SharedLimits(have State) []SharedLimit
	// OpenRates opens the data plane of an active state to set rates.
	OpenRates(have State) (Rates, error)
}

// Rates sets the rates of the shared limits of one state. It is safe for concurrent use.
type Rates interface {
	// Grant sets a rate for a time; then floor replaces it, even if this process has ended.
	// Programs, queued packets and counters stay. Rates below the lowest rate of the plane count as
	// that.
	Grant(l SharedLimit, rate, floor units.BitRate, lease time.Duration) error
	// Sample reads the counters of a limit.
	Sample(l SharedLimit) (Usage, error)
	Close() error
}

// Usage holds counters of a limit.
type Usage struct {
	Bytes     uint64 // admitted, on the wire
	Throttled uint64 // packets delayed, marked or dropped, and other events that slow senders down
}

// Followed is a RateFollower with its active state.
type Followed struct {
	RateFollower
	State State
}
