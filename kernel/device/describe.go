// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"strings"

	"weir/kernel/netns"
	"weir/kernel/tc"
)

// Replaceable describes the tree that Weir would replace on a device; "" for a default tree, one of
// Weir, or an unreadable one.
func Replaceable(ns *netns.Namespace, dev string) string {
	tree, err := Snapshot(ns, dev)
	if err != nil || tree.ours() {
		return ""
	}
	return tree.String()
}

// String describes a tree: "htb with 3 classes and 2 filters", "mq with 4 queues, the kernel's
// choice". It is "" for a device without a qdisc and for noqueue. It omits the hook, which is never
// replaced.
func (t Tree) String() string {
	root, there := t.root()
	if !there || t.isDefault() && root.Kind == "noqueue" {
		return ""
	}
	var parts []string
	if n := len(t.Classes); n > 0 {
		parts = append(parts, count(n, "class", "classes"))
	} else if n := len(t.Qdiscs) - 1; n > 0 {
		parts = append(parts, count(n, "queue", "queues")+t.below())
	}
	if n := len(t.Filters); n > 0 {
		parts = append(parts, count(n, "filter", "filters"))
	}
	text := root.Kind
	if len(parts) > 0 {
		text += " with " + strings.Join(parts, " and ")
	}
	if t.isDefault() {
		text += ", the kernel's choice"
	}
	return text
}

// below names the kind of the qdiscs below the root, if there is only one.
func (t Tree) below() string {
	kind := ""
	for _, q := range t.Qdiscs {
		switch {
		case q.Parent == tc.Root:
		case kind != "" && kind != q.Kind:
			return ""
		default:
			kind = q.Kind
		}
	}
	return " of " + kind
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
