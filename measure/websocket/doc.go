// SPDX-License-Identifier: Apache-2.0

// Package websocket is the part of RFC 6455 that bulk measurements need, for servers and clients:
// the opening handshake, frames, and a connection that counts binary payload and drops it
// without a copy.
//
// General libraries copy and unmask each payload: gorilla/websocket took 258 to 400 ms of CPU per
// GB received in clear, this package 20 to 32 ms, because the kernel drops the payload (MSG_TRUNC;
// BenchmarkReceive, 5 runs of 3,000 messages of 1 MiB on loopback, Linux 6.18, two busy cores).
// Bulk messages are written from memory shared by all connections.
// Extensions and compression are not offered: they would change the number of bytes on the wire.
//
// One goroutine may read from a [Conn] while others write to it.
package websocket
