// SPDX-License-Identifier: Apache-2.0

package rib

import (
	"slices"
	"unsafe"
)

// column holds a port's attribute sets by row.
type column struct {
	chunks []chunk
	paths  int
}

// chunk is 4,096 rows of a column: an array, or a list sorted by row if there are few paths.
type chunk struct {
	dense *[chunkSize]AttrID
	list  []entry
	n     uint16 // paths of the array
}

type entry struct {
	row uint16 // within the chunk
	low uint16 // of the AttrID
	top uint16
}

// A list longer than maxList becomes an array, an array with fewer than minDense paths a list. A
// list entry takes 6 bytes and an insertion moves at most 3 KiB.
const (
	maxList  = 512
	minDense = 256
)

func (e entry) id() AttrID { return AttrID(e.top)<<16 | AttrID(e.low) }

func entryOf(row uint16, id AttrID) entry { return entry{row, uint16(id), uint16(id >> 16)} }

// search returns the position of a row in the list, or of its insertion.
func (c *chunk) search(row uint16) (int, bool) {
	if n := len(c.list); n == 0 || c.list[n-1].row < row {
		return n, false // rows mostly come in order
	}
	return slices.BinarySearchFunc(c.list, row, func(e entry, row uint16) int { return int(e.row) - int(row) })
}

func (c *column) get(row uint32) AttrID {
	if int(row>>chunkBits) >= len(c.chunks) {
		return 0
	}
	ch := &c.chunks[row>>chunkBits]
	if ch.dense != nil {
		return ch.dense[row&chunkMask]
	}
	if i, ok := ch.search(uint16(row & chunkMask)); ok {
		return ch.list[i].id()
	}
	return 0
}

// set sets the attribute set of a row and returns the previous one, 0 for none. id is not 0.
func (c *column) set(row uint32, id AttrID) AttrID {
	for int(row>>chunkBits) >= len(c.chunks) {
		c.chunks = append(c.chunks, chunk{})
	}
	old := c.chunks[row>>chunkBits].set(uint16(row&chunkMask), id)
	if old == 0 {
		c.paths++
	}
	return old
}

func (c *chunk) set(row uint16, id AttrID) AttrID {
	if c.dense != nil {
		old := c.dense[row]
		c.dense[row] = id
		if old == 0 {
			c.n++
		}
		return old
	}
	i, ok := c.search(row)
	if ok {
		old := c.list[i].id()
		c.list[i] = entryOf(row, id)
		return old
	}
	if len(c.list) < maxList {
		c.list = slices.Insert(c.list, i, entryOf(row, id))
		return 0
	}
	c.dense = new([chunkSize]AttrID)
	for _, e := range c.list {
		c.dense[e.row] = e.id()
	}
	c.n, c.list = uint16(len(c.list)), nil
	return c.set(row, id)
}

// clear removes the attribute set of a row and returns it, 0 for none.
func (c *column) clear(row uint32) AttrID {
	if int(row>>chunkBits) >= len(c.chunks) {
		return 0
	}
	old := c.chunks[row>>chunkBits].clear(uint16(row & chunkMask))
	if old != 0 {
		c.paths--
	}
	return old
}

func (c *chunk) clear(row uint16) AttrID {
	if c.dense == nil {
		i, ok := c.search(row)
		if !ok {
			return 0
		}
		old := c.list[i].id()
		if c.list = slices.Delete(c.list, i, i+1); len(c.list) == 0 {
			c.list = nil
		}
		return old
	}
	old := c.dense[row]
	if old == 0 {
		return 0
	}
	c.dense[row] = 0
	if c.n--; c.n < minDense {
		list := make([]entry, 0, c.n)
		for row, id := range c.dense {
			if id != 0 {
				list = append(list, entryOf(uint16(row), id))
			}
		}
		*c = chunk{list: list}
	}
	return old
}

// each calls f for every path in the order of rows. f must not change the column.
func (c *column) each(f func(row uint32, id AttrID)) {
	for number := range c.chunks {
		ch, base := &c.chunks[number], uint32(number)<<chunkBits
		if ch.dense != nil {
			for row, id := range ch.dense {
				if id != 0 {
					f(base+uint32(row), id)
				}
			}
		}
		for _, e := range ch.list {
			f(base+uint32(e.row), e.id())
		}
	}
}

func (c *column) bytes() int64 {
	sum := int64(cap(c.chunks)) * int64(unsafe.Sizeof(chunk{}))
	for i := range c.chunks {
		if c.chunks[i].dense != nil {
			sum += int64(unsafe.Sizeof(*c.chunks[i].dense))
		}
		sum += int64(cap(c.chunks[i].list)) * int64(unsafe.Sizeof(entry{}))
	}
	return sum
}
