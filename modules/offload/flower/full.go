// SPDX-License-Identifier: Apache-2.0

package flower

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Full is returned if a port accepts no more rules, with the number of installed prefixes.
type Full struct {
	Prefixes int
	Err      error
}

func (f *Full) Error() string { return fmt.Sprintf("after %d prefixes: %v", f.Prefixes, f.Err) }

func (f *Full) Unwrap() error { return f.Err }

// outOfSpace converts the errors of drivers for a full table to a Full.
func outOfSpace(prefixes int, err error) error {
	if slices.ContainsFunc([]error{unix.ENOSPC, unix.ENOMEM, unix.E2BIG}, func(cause error) bool { return errors.Is(err, cause) }) {
		return &Full{prefixes, err}
	}
	return err
}
