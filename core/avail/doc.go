// SPDX-License-Identifier: Apache-2.0

// Package avail estimates the spare capacity of a path for less than best effort, and measures the
// effect of the estimate on best-effort traffic.
//
// It sends short trains of datagrams at increasing rates. While the path carries a rate, the delays
// within a train are constant; above it, the queue grows from datagram to datagram (self-loading
// periodic streams, Jain and Dovrolis, 2002). Trains are marked, as LE by default. Small unmarked
// packets return all the while; when their delay rises, the train ends at once.
//
// Pitfalls:
//
//   - The available rate is that of the tightest queue of the class: behind queues for classes it
//     is the remainder of best effort, in a common queue the unused rate.
//   - A shaper with a deep bucket carries a train at a rate that it does not sustain.
//   - Delays span two clocks: only their changes are used.
package avail
