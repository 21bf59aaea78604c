// SPDX-License-Identifier: Apache-2.0

// Package avail estimates the available bandwidth of a path for less than best effort, and measures
// the effect of the estimation on best-effort traffic.
//
// It sends short trains of datagrams at increasing rates. While the path carries a rate, the delays
// within a train are constant; above the rate, the queue grows from datagram to datagram
// (self-loading periodic streams, Jain and Dovrolis, 2002). Trains are marked, as LE by default.
// Small unmarked packets measure the round-trip time concurrently; when it rises, the train ends
// immediately.
//
// Pitfalls:
//
//   - The result is the rate of the class in the bottleneck queue: with one queue per class, the
//     rate that best effort leaves; with a common queue, the unused rate.
//   - A shaper with a deep bucket carries a train at a rate that it cannot sustain.
//   - Delays are differences of two clocks: only their changes are used.
package avail
