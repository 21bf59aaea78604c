// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"slices"
	"sync"
	"time"

	"weir/core/module"
	"weir/modules/limit/shape"
)

// unshapedFor is the time for which directions without a mode stay policed after shaping failed.
const unshapedFor = 10 * time.Minute

// failures are the last errors of shapers of this process, by the path of their pins.
var failures struct {
	sync.Mutex
	at map[string]failure
}

type failure struct {
	err  error
	when time.Time
}

// failedShaping returns the obstacle of a host on which shaping has failed.
func failedShaping(h shape.Host) obstacle {
	failures.Lock()
	defer failures.Unlock()
	last, there := failures.at[h.Pins]
	if !there || time.Since(last.when) > unshapedFor {
		return obstacle{}
	}
	o := obstacleOf(last.err)
	o.why = "shaping failed: " + o.why
	return o
}

// remember records an error of the shapers. It reports whether there was none of late.
func remember(h shape.Host, err error) (first bool) {
	failures.Lock()
	defer failures.Unlock()
	last, there := failures.at[h.Pins]
	if failures.at == nil {
		failures.at = map[string]failure{}
	}
	failures.at[h.Pins] = failure{err, time.Now()}
	return !there || time.Since(last.when) > unshapedFor
}

// triesPolicing records an error of the shapers. It reports whether a state has directions without
// a mode, which are policed from now on, so that another try may succeed.
func triesPolicing(h shape.Host, want module.State, err error) bool {
	return remember(h, err) && slices.ContainsFunc(want.Scopes, func(b module.Bound) bool { return byDefault(b.Scope, Egress) || byDefault(b.Scope, Ingress) })
}
