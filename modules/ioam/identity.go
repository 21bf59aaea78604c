// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"fmt"

	"weir/internal/yamlfile"
	"weir/modules/ioam/codec"
)

// identify refuses what cannot be a node's id of so many bits: all ones say that there is none (RFC
// 9197 section 4.4.2), and 0 is what a trace shows of a node that has told no id.
func identify(d draft, at yamlfile.Place, name string, n uint64, bits int) {
	most := uint64(1)<<bits - 2
	switch {
	case n>>bits != 0:
		within(d, at, name, n, bits)
	case n == 0:
		d.ComplainAt(at, tryID(most), "ioam.%s: 0 is what traces show of a node that has told no id", name)
	case n > most:
		d.ComplainAt(at, tryID(most), "ioam.%s: %#x, all ones, says that the id is not known", name, n)
	}
}

func tryID(most uint64) string { return fmt.Sprintf("give a number from 1 to %#x", most) }

const tryDistinct = "give each interface of the node an id of its own, or none"

// interfaces keeps a node's, and refuses those that traces would not tell apart. What has no id is
// not told at all.
type interfaces []Interface

func (all *interfaces) add(d draft, i Interface, keys *interfaceKeys) {
	for _, other := range *all {
		switch {
		case i.ID != codec.None16 && i.ID == other.ID:
			d.ComplainAt(keys.At("id"), tryDistinct, "ioam.interfaces.%s.id: %d is the id of %s too: traces would not tell them apart", i.Name, i.ID, other.Name)
		case i.Wide != codec.None32 && i.Wide == other.Wide:
			d.ComplainAt(keys.At("wide"), tryDistinct, "ioam.interfaces.%s.wide: %d is the wide id of %s too: traces would not tell them apart", i.Name, i.Wide, other.Name)
		}
	}
	*all = append(*all, i)
}
