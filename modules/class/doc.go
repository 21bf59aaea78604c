// SPDX-License-Identifier: Apache-2.0

// Package class marks the traffic of scopes with a class of service: the differentiated services
// code point (DSCP, RFC 2474), such as less than best effort (RFC 8622).
//
// Pitfalls:
//   - A packet is counted at each device that it leaves by: a tunnel device and the one below, a
//     container's device and the host's. It is marked once.
//   - Packets of a container have a socket only at the container's own devices. If these are
//     created after its namespace, cgroups and users match from the next apply on.
//   - The daemon attaches to a new device of the host when the kernel reports the device; without
//     the daemon the next apply does.
//   - Loopback and ifbs are never marked: their packets were received, or leave by another device.
package class
