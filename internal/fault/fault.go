// SPDX-License-Identifier: Apache-2.0

// Package fault adds advice and an exit status to errors.
//
// An error without a fault in its chain ends a command with [Failed].
package fault

import (
	"errors"
	"fmt"
)

// Status is the exit status of the command line.
type Status int

const (
	OK         Status = 0 // done, and every verdict holds
	Failed     Status = 1 // failed, or a verdict does not hold
	Usage      Status = 2 // wrong usage or bad input
	Testbed    Status = 3 // the testbed cannot support the measurement
	Permission Status = 4 // not permitted
)

// Statuses describes each exit status of a command.
func Statuses() map[Status]string {
	return map[Status]string{
		OK: "done, and every verdict holds", Failed: "failed, or a verdict does not hold", Usage: "wrong usage or bad input",
		Testbed: "the testbed cannot support it", Permission: "not permitted",
	}
}

// Error is an error with an exit status and advice. The zero value is not useful; use [New] or
// [Wrap].
type Error struct {
	Status Status
	Err    error
	Try    string // one sentence in the imperative; empty if there is no advice
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// New returns an error with a status and advice. format and args are those of fmt.Errorf, including
// %w.
func New(status Status, try, format string, args ...any) error {
	return &Error{Status: status, Err: fmt.Errorf(format, args...), Try: try}
}

// Wrap adds a status and advice to err. It returns nil for nil and keeps those of a fault in err's
// chain.
func Wrap(err error, status Status, try string) error {
	var have *Error
	if err == nil || errors.As(err, &have) {
		return err
	}
	return &Error{Status: status, Err: err, Try: try}
}

// Of returns the exit status of err: OK for nil, Failed for an error without a fault.
func Of(err error) Status {
	var have *Error
	switch {
	case err == nil:
		return OK
	case errors.As(err, &have):
		return have.Status
	}
	return Failed
}

// Advice returns the advice in err's chain, or "".
func Advice(err error) string {
	var have *Error
	if errors.As(err, &have) {
		return have.Try
	}
	return ""
}
