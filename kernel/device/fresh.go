// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"

	"weir/kernel/netns"
)

// Put sets up a tree of Weir, with RootHandle, on a device of the caller. It keeps no record of the
// former tree: it is for namespaces that end with the tree, and rejects a device with a configured
// tree.
func Put(ns *netns.Namespace, dev string, t Tree) error {
	conn, index, err := open(ns, dev)
	if err != nil {
		return err
	}
	defer conn.Close()
	have, err := snapshot(conn, index)
	if err != nil {
		return fmt.Errorf("read qdiscs of %s: %w", dev, err)
	}
	if !have.isDefault() {
		root, _ := have.root()
		return fmt.Errorf("put qdiscs at %s: it has %s %s", dev, root.Kind, root.Handle)
	}
	s, err := shapeOf(ns, index)
	if err != nil {
		return err
	}
	if t, err = rehearse(s, t); err != nil {
		return err
	}
	b := &builder{conn: conn, index: index, step: func() {}}
	if err := b.put(t); err != nil {
		return fmt.Errorf("put qdiscs at %s: %w", dev, err)
	}
	return nil
}
