// SPDX-License-Identifier: Apache-2.0

// Package class gives traffic its class of service: the differentiated services code point (DSCP,
// RFC 2474) that routers treat it by, less than best effort (RFC 8622) above all.
//
// Pitfalls:
//   - A packet is seen, and counted, at each device that it leaves by: a tunnel's and the one
//     below, a container's and the host's. It is marked once.
//   - What a container sends has its socket at the container's own devices alone: where they come
//     later than its namespace, a cgroup or a user is told from the next apply on.
//   - A device of the host that comes later is marked at when the daemon looks next, or at the next
//     apply.
//   - Loopback is left alone, and so are ifbs: what passes them has been received, or is marked
//     at another device.
package class
