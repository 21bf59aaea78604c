// SPDX-License-Identifier: Apache-2.0

// Package parts lists the components of Weir that run as child processes of the same executable.
package parts

import (
	"weir/core/prove/station"
	"weir/internal/child"
	"weir/kernel/cgroup"
	"weir/kernel/sockets/rescuer"
	"weir/lab/link/emulator"
	"weir/modules/limit/scoped"
	"weir/tester/rfc2544/forwarder"
)

// All returns the components by name.
func All() child.Parts {
	return child.Parts{
		emulator.PartName:  emulator.Part,
		station.NearPart:   station.Near,
		station.FarPart:    station.Far,
		cgroup.SocketsPart: cgroup.ServeSockets,

		forwarder.RestorePart: forwarder.Restore,
		rescuer.Part:          rescuer.Rescue,
		scoped.ExecutePart:    scoped.Execute,
	}
}
