// SPDX-License-Identifier: Apache-2.0

// Package match is what a data plane can tell traffic by, and the assignment of that to scopes: the
// Go half of bpf/match.h.
//
// A data plane includes bpf/match_packet.h (cgroup_skb) or bpf/match_socket.h (sockops), calls
// Prepare before it loads its programs and Reassign of its Maps afterwards, and hands the kinds
// that Reassign returns to its programs: a kind without its bit there is not looked up.
package match
