// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// The Parquet library trusts stated sizes: a page of 40 bytes can claim, or decompress to,
// gigabytes. The auditor therefore checks each page first: its header, its decompressed length, and
// the runs that expand to values.
const (
	maxPage       = 64 << 20 // bytes, decompressed
	maxPageValues = 8 << 20
	maxOctets     = 1 << 30   // of a file, decompressed
	maxValues     = 128 << 20 // of a file
	maxColumns    = 64
	maxRowGroups  = 1024
	maxElements   = 1 << 16 // of the lists in the footer
)

var errExpands = errors.New("it expands to more than a bundle of weir holds")

// auditor sums the expanded size of the pages of a file.
type auditor struct {
	content []byte
	zstd    *zstd.Decoder
	values  int64
	octets  int64 // decompressed
	row     int64 // minimum memory of the largest row
}

// leaf is a column.
type leaf struct {
	name                   string
	repetition, definition int // highest levels
	text                   bool
}

// open opens a file with safe pages, and returns the maximum memory of a row.
func open(content []byte, r *parquetFile) error {
	a := &auditor{content: content}
	metadata, err := a.footer()
	if err != nil {
		return err
	}
	if r.file, err = parquet.OpenFile(r, int64(len(content)), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true)); err != nil {
		return err
	}
	if a.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPage)); err != nil {
		return err
	}
	defer a.zstd.Close()
	columns := leaves(r.file.Root())
	longest := make([]int64, len(columns))
	for _, group := range metadata.RowGroups {
		if len(group.Columns) != len(columns) {
			return fmt.Errorf("a row group has %d columns of %d", len(group.Columns), len(columns))
		}
		for i := range group.Columns {
			a.row = 0
			if err := a.chunk(&group.Columns[i], columns[i]); err != nil {
				return fmt.Errorf("column %s: %w", columns[i].name, err)
			}
			longest[i] = max(longest[i], a.row)
		}
	}
	for _, n := range longest {
		r.row += n
	}
	return nil
}

// footer checks and decodes the description of the file at its end.
func (a *auditor) footer() (*format.FileMetaData, error) {
	const tail = 8 // length and magic
	if len(a.content) < tail+4 {
		return nil, errThrift
	}
	end := len(a.content) - tail
	n := int64(binary.LittleEndian.Uint32(a.content[end:]))
	if n > int64(end) {
		return nil, errThrift
	}
	text := a.content[int64(end)-n : end]
	if have, err := measure(text, maxElements); err != nil || int64(have) != n {
		return nil, errors.Join(errThrift, err)
	}
	var m format.FileMetaData
	if err := thrift.Unmarshal(&thrift.CompactProtocol{}, text, &m); err != nil {
		return nil, err
	}
	if len(m.RowGroups) > maxRowGroups || len(m.Schema) > maxColumns {
		return nil, fmt.Errorf("%d row groups of %d columns: %w", len(m.RowGroups), len(m.Schema), errExpands)
	}
	for _, s := range m.Schema {
		if children := s.NumChildren; children.Valid && int(children.V) > len(m.Schema) {
			return nil, errThrift
		}
	}
	return &m, nil
}

func leaves(c *parquet.Column) (all []leaf) {
	if c.Leaf() {
		return []leaf{{c.Name(), c.MaxRepetitionLevel(), c.MaxDefinitionLevel(), c.Type().Kind() == parquet.ByteArray}}
	}
	for _, below := range c.Columns() {
		all = append(all, leaves(below)...)
	}
	return all
}

// chunk checks the pages of one column of one row group.
func (a *auditor) chunk(c *format.ColumnChunk, column leaf) error {
	m := &c.MetaData
	start, size := m.DataPageOffset, m.TotalCompressedSize
	if m.DictionaryPageOffset != 0 {
		start = m.DictionaryPageOffset
	}
	if start < 0 || size < 0 || start > int64(len(a.content)) || size > int64(len(a.content))-start {
		return errThrift
	}
	if m.Codec != format.Zstd && m.Codec != format.Uncompressed {
		return fmt.Errorf("compressed by %s, which weir does not write", m.Codec)
	}
	for rest := a.content[start : start+size]; len(rest) > 0; {
		n, err := measure(rest, maxColumns)
		if err != nil {
			return err
		}
		var h format.PageHeader
		if err := thrift.Unmarshal(&thrift.CompactProtocol{}, rest[:n], &h); err != nil {
			return err
		}
		rest = rest[n:]
		if h.CompressedPageSize < 0 || int(h.CompressedPageSize) > len(rest) {
			return errThrift
		}
		if err := a.page(&h, rest[:h.CompressedPageSize], m.Codec == format.Zstd, column); err != nil {
			return err
		}
		rest = rest[h.CompressedPageSize:]
	}
	return nil
}

// valueMemory is the memory of a value of a list or map during the read of its row, without its
// text.
const valueMemory = 64

func (a *auditor) page(h *format.PageHeader, body []byte, compressed bool, column leaf) error {
	switch {
	case h.Type == format.DictionaryPage && h.DictionaryPageHeader.Valid:
		d := h.DictionaryPageHeader.V
		if d.Encoding != format.Plain {
			return fmt.Errorf("a dictionary encoded by %s, which weir does not write", d.Encoding)
		}
		data, err := a.decompress(body, h.UncompressedPageSize, compressed)
		if err != nil {
			return err
		}
		a.row = max(a.row, int64(len(data))) // each row may have the longest text
		return a.count(int64(d.NumValues))
	case h.Type == format.DataPageV2 && h.DataPageHeaderV2.Valid:
		d := h.DataPageHeaderV2.V
		levels := int64(d.RepetitionLevelsByteLength) + int64(d.DefinitionLevelsByteLength)
		if d.RepetitionLevelsByteLength < 0 || d.DefinitionLevelsByteLength < 0 || levels > int64(len(body)) {
			return errThrift
		}
		return a.data(&d, body, levels, h.UncompressedPageSize, compressed, column)
	}
	return fmt.Errorf("a page of the kind %s, which weir does not write", h.Type)
}

func (a *auditor) data(d *format.DataPageHeaderV2, body []byte, levels int64, size int32, compressed bool, column leaf) error {
	n := int(d.NumValues)
	if err := a.count(int64(n)); err != nil {
		return err
	}
	repetition := body[:d.RepetitionLevelsByteLength]
	definition := body[d.RepetitionLevelsByteLength:levels]
	if err := errors.Join(runs(repetition, bits.Len(uint(column.repetition)), n), runs(definition, bits.Len(uint(column.definition)), n)); err != nil {
		return err
	}
	data, err := a.decompress(body[levels:], size, compressed && (!d.IsCompressed.Valid || d.IsCompressed.V))
	if err != nil {
		return err
	}
	if column.repetition > 1 {
		return errors.New("lists in lists, which weir does not write")
	}
	if column.repetition == 1 {
		row := int64(maxRow(repetition)) * valueMemory
		if column.text {
			row += int64(len(data))
		}
		a.row = max(a.row, row)
	}
	switch d.Encoding {
	case format.Plain:
		return nil
	case format.RLEDictionary:
		if len(data) == 0 {
			return nil
		}
		return runs(data[1:], int(data[0]), n)
	case format.DeltaBinaryPacked, format.DeltaLengthByteArray:
		return deltas(data, n)
	}
	return fmt.Errorf("encoded by %s, which weir does not write", d.Encoding)
}

func (a *auditor) count(values int64) error {
	if a.values += values; values < 0 || values > maxPageValues || a.values > maxValues {
		return errExpands
	}
	return nil
}

// decompress gets only bodies that decompress to at most size bytes.
func (a *auditor) decompress(body []byte, size int32, compressed bool) ([]byte, error) {
	if a.octets += int64(size); size < 0 || size > maxPage || a.octets > maxOctets {
		return nil, errExpands
	}
	if !compressed {
		return body, nil
	}
	data, err := a.zstd.DecodeAll(body, make([]byte, 0, min(int(size), 1<<20)))
	if err == nil && len(data) > int(size) {
		err = errExpands
	}
	return data, err
}

// runs checks a hybrid of runs and packed groups (RLE in Parquet's Encodings.md) with at most this
// many values.
func runs(data []byte, width, most int) error {
	if width > 32 {
		return errThrift
	}
	for left := uint64(most) + 7; len(data) > 0; { // the last group is filled up
		head, n := binary.Uvarint(data)
		if n <= 0 {
			return errThrift
		}
		count, octets := head>>1, uint64(width+7)/8
		if count > left {
			return errExpands
		}
		if head&1 == 1 {
			octets, count = count*uint64(width), count*8
		}
		if count > left || octets > uint64(len(data)-n) {
			return errExpands
		}
		data, left = data[uint64(n)+octets:], left-count
	}
	return nil
}

// maxRow returns the maximum number of values of a row of a list, from checked repetition
// levels of 0 and 1: 0 starts a row.
func maxRow(levels []byte) (longest int) {
	length := 0
	add := func(level byte, n int) {
		if level != 0 {
			length += n
			return
		}
		longest, length = max(longest, length), 1
	}
	for len(levels) > 0 {
		head, n := binary.Uvarint(levels)
		levels = levels[n:]
		count := int(head >> 1)
		if head&1 == 0 {
			add(levels[0], count)
			levels = levels[1:]
			continue
		}
		for _, packed := range levels[:count] {
			for bit := range 8 {
				add(packed>>bit&1, 1)
			}
		}
		levels = levels[count:]
	}
	return max(longest, length)
}

// deltas checks the head of packed differences: block size, groups in a block, number of values.
func deltas(data []byte, most int) error {
	var head [3]uint64
	for i := range head {
		v, n := binary.Uvarint(data)
		if n <= 0 {
			return errThrift
		}
		head[i], data = v, data[n:]
	}
	if head[2] > uint64(most) {
		return errExpands
	}
	return nil
}
