// SPDX-License-Identifier: Apache-2.0

// Package limit is the module for bandwidth limits: the keys egress and ingress of a scope, their
// checks and warnings, the report, and the rate check of weir prove.
//
// With mode: shape, package shape delays the packets of a direction at a device. With mode: police,
// package police charges the packets of sockets, marks them, paces TCP senders, and rejects or
// drops packets, without a standing queue. A direction without a mode is shaped if the host can
// shape it, and policed otherwise. A scope can have a parent; a packet is charged to at most four
// scopes.
//
// Pitfalls: A policer charges only packets of local sockets, a shaper all packets of its device. If
// a process moves to another cgroup, its sockets stay in the cgroup in which they were opened.
// Loopback traffic is exempt unless a scope has loopback: true.
package limit
