// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bytes"
	"fmt"
	"path/filepath"
	"sync"
	"unsafe"

	"github.com/parquet-go/jsonlite"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// parquetFormat is in the footer of each file. A changed column needs a new format, an additional
// one does not.
const parquetFormat = "weir-archive/1"

// flatFields are the columns beside raw, equal for all datatypes. The partition columns
// organization, experiment, datatype and date are in the path alone.
var flatFields = []field{
	{Name: "id", Type: "STRING"}, {Name: "test_time", Type: "TIMESTAMP"}, {Name: "direction", Type: "STRING"}, {Name: "congestion_control", Type: "STRING"},
	{Name: "mean_throughput_mbps", Type: "FLOAT"}, {Name: "min_rtt_ms", Type: "FLOAT"}, {Name: "loss_rate", Type: "FLOAT"},
	{Name: "client", Type: "STRING"}, {Name: "server", Type: "STRING"},
	{Name: "archive_url", Type: "STRING"}, // of the data object with this record
	{Name: "filename", Type: "STRING"},    // as in the data object
	{Name: "unfit", Type: "STRING"},       // members that raw lacks, or the reason why it is null
}

// table is the Parquet form of a datatype.
type table struct {
	fields  []field // of a record; nil if the datatype has no schema
	columns []*column
	leaves  int
	schema  *parquet.Schema
}

// tables caches the table of each datatype.
var tables sync.Map

// tableOf returns the table of a datatype. One without a schema has its records as JSON text.
func tableOf(datatype string) *table {
	if t, known := tables.Load(datatype); known {
		return t.(*table)
	}
	t := &table{fields: schemas()[datatype]}
	raw := field{Name: "raw", Type: "JSON"}
	if t.fields != nil {
		raw = field{Name: "raw", Type: "RECORD", Fields: t.fields}
	}
	t.columns = newColumns(append([]field{raw}, flatFields...), 0, &t.leaves)
	t.schema = parquet.NewSchema("test", group(t.columns))
	tables.Store(datatype, t)
	return t
}

// parquet writes one row per record.
func (b *bundle) parquet() (content []byte, err error) {
	var out bytes.Buffer
	p := b.plan
	t := tableOf(p.Folder.Datatype)
	writer := parquet.NewGenericWriter[any](&out, t.schema, parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}), parquet.KeyValueMetadata("weir.format", parquetFormat))
	s := shredder{leaves: make([][]parquet.Value, t.leaves)}
	var row parquet.Row
	for i, text := range b.texts {
		value, f := t.convert(p.Folder.Datatype, text)
		file := filepath.Join(p.Spool, p.Folder.path(), p.Files[i])
		f.Object, f.Filename = &p.Archive, &file
		t.shred(&s, f, value)
		row = s.row(row[:0])
		if _, err := writer.WriteRows([]parquet.Row{row}); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Files[i], err)
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// convert parses a record and compares it with its schema. A record that does not fit is nil.
func (t *table) convert(datatype string, text []byte) (*jsonlite.Value, flat) {
	value, reason := jsonlite.Parse(unsafe.String(unsafe.SliceData(text), len(text))) // nobody changes text
	var f flat
	if reason != nil { // too deep, for example
		value = nil
	} else {
		f = flatten(datatype, value)
		var c comparison
		if t.fields != nil {
			reason = c.object(t.fields, value, "")
		}
		if reason != nil {
			value = nil
		} else {
			reason = c.extra
		}
	}
	if reason != nil {
		text := reason.Error()
		f.Unfit = &text
	}
	return value, f
}

// shred takes a row apart. raw is nil if the record does not fit.
func (t *table) shred(s *shredder, f flat, raw *jsonlite.Value) {
	for _, c := range t.columns {
		if c.Name == "raw" {
			s.member(c, raw, 0, 0)
			continue
		}
		value, is := f.value(c.Name)
		definition := 0
		if is {
			definition = 1
		}
		s.leaves[c.leaf] = append(s.leaves[c.leaf], value.Level(0, definition, c.leaf))
	}
}

// value returns the value of a column, and false with a null value if there is none.
func (f *flat) value(name string) (parquet.Value, bool) {
	var text *string
	var number *float64
	switch name {
	case "test_time":
		if f.TestTime == nil {
			return parquet.NullValue(), false
		}
		return parquet.Int64Value(f.TestTime.UnixMicro()), true
	case "mean_throughput_mbps":
		number = f.Rate
	case "min_rtt_ms":
		number = f.MinRTT
	case "loss_rate":
		number = f.LossRate
	case "id":
		text = f.ID
	case "direction":
		text = f.Direction
	case "congestion_control":
		text = f.Control
	case "client":
		text = f.Client
	case "server":
		text = f.Server
	case "archive_url":
		text = f.Object
	case "filename":
		text = f.Filename
	case "unfit":
		text = f.Unfit
	}
	switch {
	case text != nil:
		return parquet.ByteArrayValue([]byte(*text)), true
	case number != nil:
		return parquet.DoubleValue(*number), true
	}
	return parquet.NullValue(), false
}
