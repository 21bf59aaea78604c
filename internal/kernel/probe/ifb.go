// SPDX-License-Identifier: Apache-2.0

package probe

import "weir/internal/kernel/rtnl"

// IFB probes intermediate functional blocks, by making one in a fresh namespace.
func IFB() error {
	return need{namespaceCapabilities, "CONFIG_IFB"}.explain("ifb", inNamespace(func(conn *rtnl.Conn) error { return conn.AddIFB("probe") }))
}
