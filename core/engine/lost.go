// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"os"
	"slices"

	"weir/core/module"
	"weir/internal/fault"
)

// noteLost tells of what is in force and was written down nowhere.
const noteLost = "what is pinned below %s is in force, and the state that says what it is has gone from %s: it is ended before anything else"

// lost says whether something of ours is in force of which there is no state: somebody has moved
// the folder away that holds it. Who may not look sees nothing.
func (e *Engine) lost(have *state) (bool, error) {
	if !have.Applied.IsZero() {
		return false, nil
	}
	for _, r := range e.Modules {
		if pins, err := os.ReadDir(e.host(r).Pins); err != nil || len(pins) == 0 {
			continue
		}
		in, err := e.Plane(r).InPlace(module.State{})
		if err != nil && !errors.Is(err, os.ErrPermission) {
			return false, err
		}
		if in {
			return true, nil
		}
	}
	return false, nil
}

// endLost ends it, since nobody knows which scopes it holds.
func (e *Engine) endLost(have *state) (was bool, err error) {
	if was, err = e.lost(have); err != nil || !was {
		return false, err
	}
	if _, err = e.endModules(); errors.Is(err, module.ErrForeign) {
		err = nil
	}
	return true, err
}

// obstacles describes why an apply would be rejected before it starts, each with advice. Missing
// rights alone are no obstacle, because another user may apply the policy. Beside other reasons they
// come first, because they may be the cause.
func obstacles(refused error) (all []string) {
	rights := false
	for _, err := range parts(refused) {
		if fault.Of(err) == fault.Permission || errors.Is(err, os.ErrPermission) {
			rights = true
			continue
		}
		text := "an apply would be rejected: " + err.Error()
		if try := fault.Advice(err); try != "" {
			text += "; " + try
		}
		if !slices.Contains(all, text) { // several rooms say the same
			all = append(all, text)
		}
	}
	if rights && len(all) > 0 {
		all = append([]string{"an apply needs rights that this process lacks: run it as root"}, all...)
	}
	return all
}

// parts are the errors that were joined.
func parts(err error) []error {
	joined, is := err.(interface{ Unwrap() []error })
	if is && errors.Join(joined.Unwrap()...).Error() == err.Error() { // else words of its own are around them
		var all []error
		for _, one := range joined.Unwrap() {
			all = append(all, parts(one)...)
		}
		return all
	}
	if err == nil {
		return nil
	}
	return []error{err}
}
