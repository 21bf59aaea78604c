// SPDX-License-Identifier: Apache-2.0

// Package station is one end of a flow that tests a promise: on command it opens sockets, sends,
// and counts arriving traffic.
//
// A flow has a near station, a process in the scope, and a far station, which a [Server] creates
// for each client with its token. Both accept the same commands, the near one on its standard
// input, the far one on a TCP connection, so that the receiver always measures.
//
// Pitfalls: a socket stays in the cgroup and the network namespace of the process that opened it.
// Therefore the near station is a process, not a goroutine.
package station
