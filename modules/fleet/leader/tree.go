// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"fmt"

	"weir/modules/fleet/alloc"
)

// Tree is a set of shared limits, parents before their children. The zero value is empty.
type Tree struct {
	names  []string
	limits []alloc.Limit
	index  map[string]int
}

// Add appends a limit; parent is "" for none, or the name of a limit that was added before.
func (t *Tree) Add(name, parent string, l alloc.Limit) error {
	l.Parent = -1
	if parent != "" {
		at, there := t.index[parent]
		if !there {
			return fmt.Errorf("limit %s: no limit %s", name, parent)
		}
		l.Parent = at
	}
	if _, there := t.index[name]; there {
		return fmt.Errorf("limit %s exists", name)
	}
	if t.index == nil {
		t.index = map[string]int{}
	}
	t.index[name] = len(t.names)
	t.names, t.limits = append(t.names, name), append(t.limits, l)
	return nil
}

// Index returns the index of a limit; -1 if there is none.
func (t *Tree) Index(name string) int {
	if at, there := t.index[name]; there {
		return at
	}
	return -1
}

// Rate returns the rate of a limit in bit/s.
func (t *Tree) Rate(name string) (float64, bool) {
	at := t.Index(name)
	if at < 0 {
		return 0, false
	}
	return t.limits[at].Rate, true
}

// Names lists the limits.
func (t *Tree) Names() []string { return t.names }
