// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"os"
	"slices"

	"weir/core/module"
	"weir/internal/fault"
)

// noteOrphaned is the note about orphaned programs.
const noteOrphaned = "programs pinned below %s are active without a state in %s: they are removed first"

// orphaned reports whether pins exist without a state file, for instance because the state folder
// was moved. Without the right to read pins it returns false.
func (e *Engine) orphaned(have *state) (bool, error) {
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

// endOrphaned removes orphaned programs, because their scopes are unknown.
func (e *Engine) endOrphaned(have *state) (was bool, err error) {
	if was, err = e.orphaned(have); err != nil || !was {
		return false, err
	}
	if _, err = e.endModules(); errors.Is(err, module.ErrForeign) {
		err = nil
	}
	return true, err
}

// obstacles describes why an apply would be rejected before it starts, each with advice. Missing
// rights alone are no obstacle, because another user may apply the policy. Beside other reasons
// they come first, because they may be the cause.
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
		if !slices.Contains(all, text) { // several modules may return the same
			all = append(all, text)
		}
	}
	if rights && len(all) > 0 {
		all = append([]string{"an apply needs rights that this process lacks: run it as root"}, all...)
	}
	return all
}

// parts splits a joined error.
func parts(err error) []error {
	joined, is := err.(interface{ Unwrap() []error })
	if is && errors.Join(joined.Unwrap()...).Error() == err.Error() { // otherwise the error adds its own text
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
