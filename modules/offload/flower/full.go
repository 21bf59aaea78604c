// SPDX-License-Identifier: Apache-2.0

package flower

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Full is that a port takes no more rules: how many prefixes it had taken before.
type Full struct {
	Prefixes int
	Err      error
}

func (f *Full) Error() string { return fmt.Sprintf("after %d prefixes: %v", f.Prefixes, f.Err) }

func (f *Full) Unwrap() error { return f.Err }

// outOfRoom makes a Full of a refusal that is one of room, as drivers say it.
func outOfRoom(prefixes int, err error) error {
	if slices.ContainsFunc([]error{unix.ENOSPC, unix.ENOMEM, unix.E2BIG}, func(room error) bool { return errors.Is(err, room) }) {
		return &Full{prefixes, err}
	}
	return err
}
