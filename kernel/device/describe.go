// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"strings"

	"weir/kernel/netns"
	"weir/kernel/tc"
)

// Replaceable names the tree that a device would lose to Weir's; "" where that is none to speak of,
// one of Weir's own, or cannot be read.
func Replaceable(ns *netns.Namespace, dev string) string {
	tree, err := Snapshot(ns, dev)
	if err != nil || tree.ours() {
		return ""
	}
	return tree.String()
}

// String names a tree as a person would: "htb with 3 classes and 2 filters", "mq with 4 queues, the
// kernel's choice". It is "" where nothing waits by anybody's choice: of a device without a qdisc,
// and of the kernel's noqueue. The hook is left out, since it is never replaced.
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

// below names the kind of what is below the root, if that is one.
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
