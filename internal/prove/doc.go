// Package prove tests actively that the limits in force hold, and on which paths they do not.
//
// It sends short flows of its own from inside each scope to a peer and measures what arrives there. The peer is a process
// in a network namespace of its own, or one elsewhere. What bites:
//
//   - A flow that is too slow proves nothing unless the same path carries more without the limit. Every path is measured
//     from outside the scopes first; where that is not possible, "under" becomes "cannot say".
//   - A scope may have traffic of its own meanwhile. Its counters are read at the edges of every window, and where they
//     hold clearly more than what arrived, they are what is compared.
//   - Nothing on the host is changed but by adding: veth pairs and their addresses, in a range meant for tests, cgroups, and
//     on an interface that has a scope a route, a neighbour and a program that takes the flows off before the link.
package prove
