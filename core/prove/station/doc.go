// SPDX-License-Identifier: Apache-2.0

// Package station is one end of a flow that proves a promise: it opens sockets, sends or counts
// what arrives, and does so on command.
//
// A flow has a near station, a process in the scope, and a far one, which a [Server] makes for
// everyone who knows its token. Both understand the same commands, the near one on its standard
// input, the far one on a TCP connection of its own, so that what is measured is always measured
// where it arrives. What bites: sockets belong for good to the cgroup and the network namespace of
// the process that opens them, which is why the near station is a process and not a goroutine.
package station
