// SPDX-License-Identifier: Apache-2.0

// Package avail estimates what a path has left for less than best effort, and measures what the
// estimate itself does to best effort meanwhile.
//
// Short trains of datagrams go at rates that rise from below. While the path carries a rate the
// delays within a train stay as they are; above, the queue grows from datagram to datagram (self-
// loading periodic streams, Jain and Dovrolis, 2002). Trains are marked, as LE if nothing else is
// asked for; small unmarked packets that come back all the while tell what others feel, and end a
// train at once that makes them wait.
//
// What bites:
//   - What is available is of the tightest queue that the class waits in: behind classes it is what
//     best effort leaves, in a common queue what is free.
//   - A shaper with a deep bucket carries a train at a rate that it does not carry for long.
//   - Delays are of two clocks: only how they change is looked at.
package avail
