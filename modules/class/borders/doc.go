// SPDX-License-Identifier: Apache-2.0

// Package borders marks packets that enter this network at a device, and translates the code points
// of classes between two networks.
//
// Pitfalls:
//   - A border is a device of the host's own network namespace. Packets that bypass its hooks stay
//     unmarked: AF_XDP, XDP redirects, and packets forwarded by a NIC.
//   - A border on a VLAN device and one on the device below process the same packets, one after the
//     other.
//   - Only the outermost IP header is read and written.
package borders
