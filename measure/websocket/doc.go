// SPDX-License-Identifier: Apache-2.0

// Package websocket is the part of RFC 6455 that bulk measurements need, for servers and clients:
// the opening handshake, frames, and a connection that counts binary payload and drops it
// without a copy.
//
// General libraries copy and unmask each payload. Here the kernel drops the payload of clear
// connections (MSG_TRUNC), and bulk messages are written from memory shared by all connections.
// Extensions and compression are not offered: they would change the number of bytes on the wire.
//
// One goroutine may read from a [Conn] while others write to it.
package websocket
