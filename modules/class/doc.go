// SPDX-License-Identifier: Apache-2.0

// Package class marks the traffic of scopes with a class of service: the differentiated services
// code point (DSCP, RFC 2474), such as less than best effort (RFC 8622).
//
// Pitfalls:
//   - A packet is counted at each device through which it leaves: at a tunnel device and at the
//     underlying device, at a container's device and at the host's. It is marked once.
//   - Packets of a container have a socket only at the container's own devices. If a device is
//     created after the namespace, scopes of cgroups and users match there after the next apply.
//   - The daemon attaches to a new device of the host when the kernel reports the device; without
//     the daemon, the next apply does.
//   - Packets at loopback and ifb devices are never marked: they were received, or leave through
//     another device.
package class
