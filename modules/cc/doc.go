// SPDX-License-Identifier: Apache-2.0

// Package cc brings TCP congestion controls as BPF programs (struct_ops) to kernels that were built
// without them.
//
// [Install] registers one; from then on any socket may choose it by name with
// setsockopt(TCP_CONGESTION), and [Installed.Attach] gives it to the new connections of a cgroup.
// It ends with the process unless it is pinned.
//
// Pitfalls: names are global on the host, whatever the network namespace. Choosing a
// control needs CAP_NET_ADMIN in the socket's namespace unless it was installed as unrestricted.
// DCTCP needs ECN from before the handshake, so choose it before connect or listen; on a connection
// without ECN it hands over to Reno at once. Connections that use a control keep it when it is
// removed, until they close.
package cc
