// SPDX-License-Identifier: Apache-2.0

// Package match assigns keys of traffic to scopes: the Go half of bpf/match.h.
//
// A data plane includes bpf/match_packet.h (cgroup_skb) or bpf/match_socket.h (sockops), calls
// Prepare before it loads its programs and Reassign of its Maps afterwards, and passes the kinds
// returned by Reassign to its programs, which skip the lookup of other kinds.
package match
