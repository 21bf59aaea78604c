// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"
	"unsafe"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"weir/record"
	"weir/record/hist"
)

// batch is the number of rows converted at a time.
const batch = 8192

// The rows of the Parquet files. Changing a column needs a new bundle format; adding one does not.
type (
	sampleRow struct {
		Labels     map[string]string `parquet:"labels"`
		Subject    string            `parquet:"subject,dict"`
		Metric     string            `parquet:"metric,dict"`
		Unit       string            `parquet:"unit,dict"`
		Repetition int32             `parquet:"repetition"`
		Attempt    int32             `parquet:"attempt"`
		Value      float64           `parquet:"value"`
		Valid      bool              `parquet:"valid"`
		Reason     string            `parquet:"reason,dict"`
	}
	pointRow struct {
		Labels     map[string]string `parquet:"labels"`
		Subject    string            `parquet:"subject,dict"`
		Metric     string            `parquet:"metric,dict"`
		Unit       string            `parquet:"unit,dict"`
		Repetition int32             `parquet:"repetition"`
		Attempt    int32             `parquet:"attempt"`
		At         int64             `parquet:"at_ns,delta"`
		Value      float64           `parquet:"value"`
	}
	distributionRow struct {
		Labels     map[string]string `parquet:"labels"`
		Subject    string            `parquet:"subject,dict"`
		Metric     string            `parquet:"metric,dict"`
		Unit       string            `parquet:"unit,dict"`
		Repetition int32             `parquet:"repetition"`
		Attempt    int32             `parquet:"attempt"`
		Valid      bool              `parquet:"valid"`
		Count      uint64            `parquet:"count"`
		Sum        uint64            `parquet:"sum"`
		Min        uint64            `parquet:"min"`
		Max        uint64            `parquet:"max"`
		Buckets    []bucketRow       `parquet:"buckets,list"`
	}
	// bucketRow is one non-empty bucket: Low <= value <= High.
	bucketRow struct {
		Low   uint64 `parquet:"low"`
		High  uint64 `parquet:"high"`
		Count uint64 `parquet:"count"`
	}
)

// writeRows converts and writes rows a batch at a time.
func writeRows[Row, T any](w io.Writer, items []T, convert func(*T) (Row, error)) error {
	writer := parquet.NewGenericWriter[Row](w, parquet.Compression(&zstd.Codec{Level: zstd.SpeedDefault}),
		parquet.KeyValueMetadata("weir.format", record.FormatBundle))
	rows := make([]Row, 0, min(batch, len(items)))
	for start := 0; start < len(items); start += batch {
		rows = rows[:0]
		for i := start; i < min(start+batch, len(items)); i++ {
			row, err := convert(&items[i])
			if err != nil {
				return err
			}
			rows = append(rows, row)
		}
		if _, err := writer.Write(rows); err != nil {
			return err
		}
	}
	return writer.Close()
}

// parquetFile is a Parquet file in memory, with the maximum memory of a row.
type parquetFile struct {
	*bytes.Reader
	file *parquet.File
	row  int64
}

// Memory for reading a file: a batch of rows, and all results. The latter grows with the file,
// because a useful row takes one or two bytes.
const (
	batchMemory = 64 << 20
	keptMemory  = 256 << 20
	keptPerByte = 64
)

// readRows reads and converts rows a batch at a time. The library may panic on a damaged file; that
// becomes an error.
func readRows[Row, T any](content []byte, convert func(*Row, *interner) (T, error)) (items []T, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			items, err = nil, fmt.Errorf("damaged: %v", cause)
		}
	}()
	f := parquetFile{Reader: bytes.NewReader(content)}
	if err := open(content, &f); err != nil {
		return nil, err
	}
	reader := parquet.NewGenericReader[Row](f.file)
	defer reader.Close()
	size := int64(unsafe.Sizeof(*new(Row)))
	rows := make([]Row, max(1, min(f.file.NumRows(), batch, batchMemory/(f.row+size))))
	keep := newKeeper(len(content))
	for {
		n, err := reader.Read(rows)
		if err := keep.spend(n * 2 * int(unsafe.Sizeof(*new(T)))); err != nil { // twice, as items grows
			return nil, err
		}
		for i := range rows[:n] {
			item, err := convert(&rows[i], keep)
			if err != nil {
				return nil, fmt.Errorf("row %d: %w", len(items)+1, err)
			}
			items = append(items, item)
		}
		clear(rows) // the reader would write into the returned maps and lists
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if n == 0 { // the footer promises more rows than the pages hold: the library would repeat this
			return nil, fmt.Errorf("damaged: %w after %d rows of %d", io.ErrNoProgress, len(items), f.file.NumRows())
		}
	}
	if int64(len(items)) != f.file.NumRows() {
		return nil, fmt.Errorf("holds %d rows of %d", len(items), f.file.NumRows())
	}
	return items, nil
}

func writeSamples(w io.Writer, samples []record.Sample) error {
	return writeRows(w, samples, func(s *record.Sample) (sampleRow, error) {
		return sampleRow{Labels: s.Labels, Subject: s.Subject, Metric: s.Metric, Unit: string(s.Unit),
			Repetition: int32(s.Repetition), Attempt: int32(s.Attempt), Value: s.Value, Valid: s.Valid, Reason: s.Reason}, nil
	})
}

func readSamples(content []byte) ([]record.Sample, error) {
	return readRows(content, func(row *sampleRow, keep *interner) (record.Sample, error) {
		return record.Sample{Labels: keep.labels(row.Labels), Subject: keep.text(row.Subject), Metric: keep.text(row.Metric), Unit: record.Unit(keep.text(row.Unit)),
			Repetition: int(row.Repetition), Attempt: int(row.Attempt), Value: row.Value, Valid: row.Valid, Reason: keep.text(row.Reason)}, nil
	})
}

func writePoints(w io.Writer, points []record.Point) error {
	return writeRows(w, points, func(p *record.Point) (pointRow, error) {
		return pointRow{Labels: p.Labels, Subject: p.Subject, Metric: p.Metric, Unit: string(p.Unit),
			Repetition: int32(p.Repetition), Attempt: int32(p.Attempt), At: int64(p.At), Value: p.Value}, nil
	})
}

func readPoints(content []byte) ([]record.Point, error) {
	return readRows(content, func(row *pointRow, keep *interner) (record.Point, error) {
		return record.Point{Labels: keep.labels(row.Labels), Subject: keep.text(row.Subject), Metric: keep.text(row.Metric), Unit: record.Unit(keep.text(row.Unit)),
			Repetition: int(row.Repetition), Attempt: int(row.Attempt), At: time.Duration(row.At), Value: row.Value}, nil
	})
}

func writeDistributions(w io.Writer, distributions []record.Distribution) error {
	return writeRows(w, distributions, func(d *record.Distribution) (distributionRow, error) {
		h := d.Histogram
		row := distributionRow{Labels: d.Labels, Subject: d.Subject, Metric: d.Metric, Unit: string(d.Unit),
			Repetition: int32(d.Repetition), Attempt: int32(d.Attempt), Valid: d.Valid,
			Count: h.Count(), Sum: h.Sum(), Min: h.Min(), Max: h.Max()}
		for i, n := range h.All() {
			low, high := hist.Bounds(i)
			row.Buckets = append(row.Buckets, bucketRow{Low: low, High: high, Count: n})
		}
		return row, nil
	})
}

func readDistributions(content []byte) ([]record.Distribution, error) {
	return readRows(content, func(row *distributionRow, keep *interner) (record.Distribution, error) {
		pairs := make([][2]uint64, len(row.Buckets))
		for i, b := range row.Buckets {
			pairs[i] = [2]uint64{uint64(hist.Index(b.Low)), b.Count}
		}
		if last := len(pairs) - 1; last >= 0 {
			if err := keep.spend(8 * int(pairs[last][0]+1)); err != nil {
				return record.Distribution{}, err
			}
		}
		h, err := hist.FromBuckets(pairs, row.Min, row.Max, row.Sum)
		if err != nil {
			return record.Distribution{}, err
		}
		return record.Distribution{Labels: keep.labels(row.Labels), Subject: keep.text(row.Subject), Metric: keep.text(row.Metric),
			Unit: record.Unit(keep.text(row.Unit)), Repetition: int(row.Repetition), Attempt: int(row.Attempt), Valid: row.Valid,
			Histogram: h}, nil
	})
}
