// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"

	"weir/kernel/netns"
)

// Put gives a device of the caller's own a tree of Weir's own, whose root has RootHandle. Nothing
// is kept to bring the former one back: it is for namespaces that end with the tree, and refuses
// a device that somebody has given a tree already.
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
