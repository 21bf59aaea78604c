// SPDX-License-Identifier: Apache-2.0

package police

import "fmt"

// MaxWeight bounds the weight of a scope against its siblings.
const MaxWeight = 10_000

// SetParent puts a scope below another: what the child is charged for, the parent is charged for
// too, and what the child may use is its part of the parent's rate, by Limit.Min and Limit.Weight,
// where both limit a direction. Set the parent's own parent first. In a data plane that is not
// Active yet it takes effect with the first assignment. A packet is charged to MaxDepth scopes at
// most, its scopes' parents among them.
func (p *DataPlane) SetParent(child, parent int) error {
	if err := p.known(child); err != nil {
		return err
	}
	if err := p.known(parent); err != nil {
		return err
	}
	var above limitLimitNode
	if err := p.objects.LimitTree.Lookup(uint32(parent), &above); err != nil {
		return fmt.Errorf("read parent of scope %d: %w", parent, err)
	}
	if int(above.Depth)+1 >= MaxDepth {
		return fmt.Errorf("scope %d has %d scopes above it, and a packet is charged to %d", child, above.Depth+1, MaxDepth)
	}
	p.settings.Parents = 1
	return p.place(child, limitLimitNode{Parent: uint32(parent) + 1, Depth: above.Depth + 1})
}

// ClearParent makes a scope stand on its own; one that does is no error.
func (p *DataPlane) ClearParent(child int) error {
	if err := p.known(child); err != nil {
		return err
	}
	return p.place(child, limitLimitNode{})
}

// place writes a scope's place down and makes every socket look its scopes up again, if that is
// news.
func (p *DataPlane) place(scope int, node limitLimitNode) error {
	var old limitLimitNode
	if err := p.objects.LimitTree.Lookup(uint32(scope), &old); err != nil {
		return fmt.Errorf("read parent of scope %d: %w", scope, err)
	}
	if old == node {
		return nil
	}
	if err := p.objects.LimitTree.Put(uint32(scope), &node); err != nil {
		return fmt.Errorf("set parent of scope %d: %w", scope, err)
	}
	if !p.Active() {
		return nil
	}
	return p.renew()
}

// Parent says which scope a scope stands below.
func (p *DataPlane) Parent(child int) (parent int, there bool, err error) {
	if err := p.known(child); err != nil {
		return 0, false, err
	}
	var node limitLimitNode
	if err := p.objects.LimitTree.Lookup(uint32(child), &node); err != nil {
		return 0, false, fmt.Errorf("read parent of scope %d: %w", child, err)
	}
	return int(node.Parent) - 1, node.Parent != 0, nil
}
