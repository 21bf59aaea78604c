// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"sync/atomic"

	"weir/netconf/server"
	"weir/netconf/tree"
)

// extensions is Weir's own module.
const extensions = "weir-tester"

// relay turns events of the instrument into notifications. Before connect it drops them.
type relay struct {
	to atomic.Pointer[server.Server]
}

func (r *relay) connect(s *server.Server, _ *Device) { r.to.Store(s) }

func (r *relay) ended(port, reason string) {
	if s := r.to.Load(); s != nil {
		s.Notify(extensions, "generation-ended", func(m *tree.Maker) { m.Leaf("interface", port).Leaf("reason", reason) })
	}
}

func (r *relay) link(port string, up bool) {
	if s := r.to.Load(); s != nil && !up {
		s.Notify(extensions, "link-down", func(m *tree.Maker) { m.Leaf("interface", port) })
	}
}
