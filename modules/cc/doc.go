// SPDX-License-Identifier: Apache-2.0

// Package cc provides TCP congestion controls as BPF programs (struct_ops), for kernels built
// without them.
//
// [Install] registers a control. Sockets select it by name with setsockopt(TCP_CONGESTION), and
// [Installed.Attach] sets it on new connections of a cgroup. It ends with the process unless it is
// pinned.
//
// Pitfalls:
//   - Names are global on the host, across network namespaces.
//   - Setting a control needs CAP_NET_ADMIN in the socket's namespace, unless it was installed as
//     unrestricted.
//   - DCTCP negotiates ECN in the handshake, so set it before connect or listen. On a connection
//     without ECN it selects Reno at once.
//   - Connections keep a removed control until they close.
package cc
