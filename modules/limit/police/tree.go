// SPDX-License-Identifier: Apache-2.0

package police

import "fmt"

// MaxWeight is the maximum weight of a scope.
const MaxWeight = 10_000

// SetParent sets the parent of a scope. Packets of the child are charged to both, and where both
// limit a direction, the child may use its share of the parent's rate by Limit.Min and
// Limit.Weight. Set the parent of the parent first. Before the data plane is Active it takes effect
// with the first assignment. A packet is charged to at most MaxDepth scopes, parents included.
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

// ClearParent removes the parent of a scope; a missing one is no error.
func (p *DataPlane) ClearParent(child int) error {
	if err := p.known(child); err != nil {
		return err
	}
	return p.place(child, limitLimitNode{})
}

// place writes the position of a scope, and makes all sockets look up their scopes again if it has
// changed.
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

// Parent returns the parent of a scope.
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
