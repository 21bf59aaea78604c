// SPDX-License-Identifier: Apache-2.0

// Package delay limits devices by delay: packets beyond the rate wait in the device's qdisc, and
// none is dropped before a horizon in time. What is received goes through an ifb of Weir's, called
// weir-in and the device's index. delay.bpf.c states the algorithm.
//
// What will bite you: it works on the calling thread's network namespace. The tree of qdiscs of a
// device that sends is replaced; what was there is kept in a file first ([Host.Files]) and comes
// back with the end of the limit. What waits when a limit ends is lost. Where another room has the
// tree of a device ([Work.Shared]) packets of scopes wait in that.
package shape
