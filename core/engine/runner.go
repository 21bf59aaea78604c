// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"os"
	"path/filepath"
	"time"

	"weir/core/module"
)

// WithoutDaemon returns the warnings of active modules with background work if no daemon runs.
func (e *Engine) WithoutDaemon() (words []string, err error) {
	controller, err := e.Controller()
	if err != nil || controller != nil && controller.Running {
		return nil, err
	}
	have, err := e.store().read(current)
	if err != nil {
		return nil, err
	}
	for _, r := range e.Modules {
		if runner, runs := e.Plane(r).(module.Runner); runs && !have.of(r).Empty() {
			words = append(words, runner.WithoutDaemon())
		}
	}
	return words, nil
}

// followers returns the planes with limits that follow shared limits.
func (e *Engine) followers() (all []module.Followed, err error) {
	have, err := e.store().read(current)
	if err != nil {
		return nil, err
	}
	for _, m := range e.Modules {
		if f, follows := e.Plane(m).(module.RateFollower); follows {
			all = append(all, module.Followed{RateFollower: f, State: have.of(m)})
		}
	}
	return all, nil
}

// Active returns the time of the last apply and the active state of each module, by name.
func (e *Engine) Active() (applied time.Time, states map[string]module.State, err error) {
	have, err := e.store().read(current)
	if err != nil {
		return time.Time{}, nil, err
	}
	states = make(map[string]module.State, len(e.Modules))
	for _, m := range e.Modules {
		states[m.Name()] = have.of(m)
	}
	return have.Applied, states, nil
}

// ActiveSince returns the modification time of the active state, or the zero time without one.
func (e *Engine) ActiveSince() time.Time {
	info, err := os.Stat(filepath.Join(e.StateDir, current))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}
