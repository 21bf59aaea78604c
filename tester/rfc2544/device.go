// SPDX-License-Identifier: Apache-2.0

package rfc2544

import "time"

// Device is a device under test on this machine, which reports more than its forwarded frames.
type Device interface {
	// Read returns the counters so far.
	Read() (DeviceReading, error)
	// String describes the device's setup, for the report.
	String() string
}

// DeviceReading holds a device's counters since it was made, or during a trial.
type DeviceReading struct {
	Ran     time.Duration // CPU time of its threads
	Waited  time.Duration // its threads were ready to run and their CPU ran other work
	Dropped uint64        // frames that it had forwarded and its sending device did not accept
	Ring    uint64        // capacity of its receive ring, in frames
}

func (r DeviceReading) since(before DeviceReading) DeviceReading {
	return DeviceReading{Ran: r.Ran - before.Ran, Waited: r.Waited - before.Waited, Dropped: r.Dropped - before.Dropped, Ring: r.Ring}
}
