// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"context"
	"fmt"
	"time"

	"weir/core/prove/station"
	"weir/internal/direction"
	"weir/internal/units"
)

// exemptWarm and exemptTime are the warm-up and the duration of measurements of exempt traffic,
// inside and outside of a scope.
const exemptWarm, exemptTime = 200 * time.Millisecond, 300 * time.Millisecond

// exempt measures the rate of exempt traffic on a route inside a scope and outside all scopes.
func (r *runner) exempt(ctx context.Context, s charged, at route) (Bypass, error) {
	f := station.Flow{Protocol: station.TCP, Connections: 1, Reverse: s.check.Direction == direction.Ingress, Congestion: r.o.Congestion}
	elsewhere := r.outside(true, false)
	elsewhere.ns, elsewhere.peer = at.ns, at.peer
	var speed [2]float64
	for i, one := range []route{at, elsewhere} {
		measured, err := r.measure(ctx, one, f, nil, 0, exemptWarm, exemptTime)
		if err != nil {
			return Bypass{}, err
		}
		speed[i] = measured.Received
	}
	return judgeExempt(s, speed[0], speed[1]), nil
}

// judgeExempt distinguishes exempt traffic at about the promised rate from unlimited traffic; rates
// are in bit/s. A busy CPU slows both, but hardly down to the promise.
func judgeExempt(s charged, inside, outside float64) Bypass {
	b := Bypass{State: NotApplicable, Why: s.check.Charged.Exempt}
	if inside < 2*float64(s.check.Promise) && inside < outside/2 {
		b.State, b.Why = Slowed, fmt.Sprintf("traffic over lo is exempt, but carries %s inside of the scope and %s outside", units.BitRate(inside), units.BitRate(outside))
	}
	return b
}
