// SPDX-License-Identifier: Apache-2.0

// Package borders gives packets their class where they come into this network, and translates code
// points between networks that know a class by different ones.
//
// Pitfalls:
//   - A border is a device of the host's own network namespace. What does not pass its hooks is not
//     marked: AF_XDP, XDP's redirects, and what a NIC forwards by itself.
//   - A border on a VLAN device and one on the device below see the same packets, one after the
//     other.
//   - Only the outermost IP header is looked at and written.
package borders
