// SPDX-License-Identifier: Apache-2.0

// Package limit is the module for bandwidth limits: the keys egress and ingress of a scope, their
// checks and warnings, the report, and the rate check of weir prove.
//
// A direction with mode: shape is delayed at a device by package shape. A direction with mode:
// police is charged per socket by package police, which marks packets, paces TCP senders, and
// rejects or drops packets, without a standing queue. Without a mode a direction is shaped where
// the host can shape it, and policed elsewhere. A scope can have a parent; a packet is charged to
// at most four scopes.
//
// Pitfalls: The policer charges packets of local sockets only, a shaper all packets of its device.
// A socket stays in the cgroup in which it was opened when its process moves. Loopback traffic is
// exempt unless a scope has loopback: true.
package limit
