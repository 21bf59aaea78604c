// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"os"

	"weir/internal/fault"
	"weir/internal/room"
)

// noteLost tells of what is in force and was written down nowhere.
const noteLost = "what is pinned below %s is in force, and the state that says what it is has gone from %s: it is ended before anything else"

// lost says whether something of ours is in force of which there is no state: somebody has moved
// the folder away that holds it. Who may not look sees nothing.
func (e *Engine) lost(have *state) (bool, error) {
	if !have.Applied.IsZero() {
		return false, nil
	}
	for _, r := range e.Rooms {
		if pins, err := os.ReadDir(e.host(r).Pins); err != nil || len(pins) == 0 {
			continue
		}
		in, err := e.plane(r).InPlace(room.State{})
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
	if _, err = e.endRooms(); errors.Is(err, room.ErrElsewhere) {
		err = nil
	}
	return true, err
}

// obstacle is why an apply would be refused before it begins, in words; what is another's right to
// do is not told.
func obstacle(err error) string {
	if err == nil || fault.Of(err) == fault.Permission {
		return ""
	}
	text := "an apply would be refused here: " + err.Error()
	if try := fault.Advice(err); try != "" {
		text += "; " + try
	}
	return text
}
