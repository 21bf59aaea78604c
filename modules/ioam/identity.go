// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"fmt"

	"weir/internal/yamlfile"
	"weir/modules/ioam/codec"
	"weir/modules/ioam/node"
)

// identify rejects invalid node ids of a width: all ones means none (RFC 9197 section 4.4.2), and 0
// is the id of a node without one in traces.
func identify(d draft, at yamlfile.Place, name string, n uint64, bits int) {
	highest := uint64(1)<<bits - 2
	switch {
	case n>>bits != 0:
		within(d, at, name, n, bits)
	case n == 0:
		d.ComplainAt(at, tryID(highest), "ioam.%s: 0 is the id of a node without one in traces", name)
	case n > highest:
		d.ComplainAt(at, tryID(highest), "ioam.%s: %#x, all ones, means an unknown id", name, n)
	}
}

func tryID(highest uint64) string { return fmt.Sprintf("give a number from 1 to %#x", highest) }

const tryDistinct = "give each interface of the node an id of its own, or none"

// interfaces collects the interfaces of a node, and rejects ambiguous ids. Interfaces without id
// are not recorded.
type interfaces []node.Interface

func (all *interfaces) add(d draft, i node.Interface, keys *interfaceKeys) {
	for _, other := range *all {
		switch {
		case i.ID != codec.None16 && i.ID == other.ID:
			d.ComplainAt(keys.At("id"), tryDistinct, "ioam.interfaces.%s.id: %d is also the id of %s: traces could not distinguish them", i.Name, i.ID, other.Name)
		case i.Wide != codec.None32 && i.Wide == other.Wide:
			d.ComplainAt(keys.At("wide"), tryDistinct, "ioam.interfaces.%s.wide: %d is also the wide id of %s: traces could not distinguish them", i.Name, i.Wide, other.Name)
		}
	}
	*all = append(*all, i)
}
