// SPDX-License-Identifier: Apache-2.0

// Package prove tests actively that the policy in force does what it promises, and on which paths
// it does not.
//
// It knows no room: what is sent and what must come of it are room.Checks. It sends short flows of
// its own from inside each scope to a peer and measures what arrives there. The peer is a process
// in a network namespace of its own, or one elsewhere. What bites:
//
//   - A flow that is too slow proves nothing unless the same path carries more outside of the
//     scopes. Every path whose rate matters is measured there first; where that is not possible,
//     the room is told that nobody knows.
//   - A scope may have traffic of its own meanwhile. The counters of the room are read at the edges
//     of every measurement.
//   - Nothing on the host is changed but by adding: veth pairs and their addresses, in a range
//     meant for tests, cgroups, and on an interface that has a scope a route, a neighbour and a
//     program that takes the flows off before the link.
package prove
