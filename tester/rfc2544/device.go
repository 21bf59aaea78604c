// SPDX-License-Identifier: Apache-2.0

package rfc2544

import "time"

// Device is a device under test of which more is known than what it forwards, because it runs on
// this machine.
type Device interface {
	// Read is what the device has done so far.
	Read() (DeviceReading, error)
	// String says how the device is set up, for the report.
	String() string
}

// DeviceReading is what a device has done since it was made, or during a trial.
type DeviceReading struct {
	Ran     time.Duration // processor time of its threads
	Waited  time.Duration // its threads were ready to run and their processor did something else
	Dropped uint64        // frames that it had forwarded and its sending device did not take
	Ring    uint64        // frames that wait at most in its receive ring
}

func (r DeviceReading) since(before DeviceReading) DeviceReading {
	return DeviceReading{Ran: r.Ran - before.Ran, Waited: r.Waited - before.Waited, Dropped: r.Dropped - before.Dropped, Ring: r.Ring}
}
