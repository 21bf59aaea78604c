// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"weir/record"
	"weir/record/hist"
)

// Files with correct sums and headers that are small because they repeat one value.
func TestSmallFilesDoNotTakeTheMemory(t *testing.T) {
	var samples, points, distributions, labels, many, full bytes.Buffer
	long, wide := strings.Repeat("x", 100_000), record.Labels{}
	for i := range 5_000 {
		wide[strings.Repeat("y", 1+i%50)+string(rune(0x4e00+i/50))] = ""
	}
	high := &hist.Histogram{}
	high.Record(1 << 63)
	broad := &hist.Histogram{}
	for i := range uint64(1000) {
		broad.Record(i * i * i)
	}
	if err := errors.Join(
		writeSamples(&samples, slices.Repeat([]record.Sample{{Subject: "a", Reason: long}}, 12_000)),
		writePoints(&points, make([]record.Point, 1_600_000)),
		writeDistributions(&distributions, slices.Repeat([]record.Distribution{{Histogram: high}}, 20_000)),
		writeSamples(&labels, slices.Repeat([]record.Sample{{Labels: wide}}, 100)),
		writeDistributions(&full, slices.Repeat([]record.Distribution{{Histogram: broad}}, 10_000)),
		writeSamples(&many, slices.Repeat([]record.Sample{{Valid: true}}, 300_000))); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		kind    string
		content []byte
		passes  bool
	}{
		"one long reason": {"samples", samples.Bytes(), false}, "constant points": {"points", points.Bytes(), false},
		"high histograms": {"distributions", distributions.Bytes(), false}, "wide labels": {"samples", labels.Bytes(), true},
		"constant samples": {"samples", many.Bytes(), true}, "wide histograms": {"distributions", full.Bytes(), true},
	} {
		octets, output := readInChild(t, c.kind, c.content)
		if octets > 1<<30 || c.passes != strings.HasPrefix(output, "PASS") || !c.passes && !strings.Contains(output, errExpands.Error()) {
			t.Errorf("%s: %d octets took %d MiB: %q", name, len(c.content), octets>>20, output)
		}
	}
}

const childReads = "WEIR_TEST_READ"

// TestReadAsChild is the child's part of readInChild: it reads the given file and prints the error.
func TestReadAsChild(t *testing.T) {
	content, err := os.ReadFile(os.Getenv(childReads))
	if err != nil {
		return // no child
	}
	switch filepath.Base(os.Getenv(childReads)) {
	case "samples":
		_, err = readSamples(content)
	case "points":
		_, err = readPoints(content)
	case "distributions":
		_, err = readDistributions(content)
	}
	status, _ := os.ReadFile("/proc/self/status")
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	fmt.Println(strings.Fields(peak)[0])
	if err != nil {
		t.Fatal(err)
	}
}

// readInChild reads a table in a separate process and returns its maximum memory and its error.
func readInChild(t *testing.T, kind string, content []byte) (octets int64, output string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), kind)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestReadAsChild$")
	child.Env = append(os.Environ(), childReads+"="+path)
	text, err := child.CombinedOutput()
	peak, output, _ := strings.Cut(string(text), "\n")
	if octets, bad := strconv.ParseInt(peak, 10, 64); bad == nil {
		return octets << 10, output // from KiB
	}
	t.Fatalf("%v: %s", err, text)
	return 0, ""
}

// Headers that promise more than the file holds, or than weir writes.
func TestPagesThatExpandAreRefused(t *testing.T) {
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	bomb := encoder.EncodeAll(make([]byte, 64<<20), nil)
	run := []byte{1, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0}     // width 1; 2^31 times 0
	group := []byte{0, 0xff, 0xff, 0xff, 0xff, 0x0f}      // width 0; 2^31 packed groups
	delta := []byte{128, 1, 4, 0xff, 0xff, 0xff, 0x7f, 0} // 2^28 values
	page := func(size, values int32, encoding format.Encoding) *format.PageHeader {
		h := &format.PageHeader{Type: format.DataPageV2, UncompressedPageSize: size}
		h.DataPageHeaderV2.Valid = true
		h.DataPageHeaderV2.V = format.DataPageHeaderV2{NumValues: values, Encoding: encoding}
		return h
	}
	dictionary := &format.PageHeader{Type: format.DictionaryPage, UncompressedPageSize: 4}
	dictionary.DictionaryPageHeader.Valid = true
	dictionary.DictionaryPageHeader.V.NumValues = 1 << 30
	packed := &format.PageHeader{Type: format.DictionaryPage, UncompressedPageSize: int32(len(delta))}
	packed.DictionaryPageHeader.Valid = true
	packed.DictionaryPageHeader.V = format.DictionaryPageHeader{NumValues: 8, Encoding: format.DeltaByteArray}
	first := &format.PageHeader{Type: format.DataPage}
	first.DataPageHeader.Valid = true
	levels := page(8, 8, format.Plain)
	levels.DataPageHeaderV2.V.DefinitionLevelsByteLength = int32(len(run) - 1)
	for name, c := range map[string]struct {
		header *format.PageHeader
		body   []byte
		zstd   bool
	}{
		"decompresses to more": {page(8, 8, format.Plain), bomb, true}, "claims to": {page(1<<30, 8, format.Plain), nil, true},
		"claims values": {page(8, 1<<30, format.Plain), nil, false}, "negative": {page(-1, 8, format.Plain), nil, false},
		"a run": {page(8, 8, format.RLEDictionary), run, false}, "groups": {page(8, 8, format.RLEDictionary), group, false},
		"levels": {levels, run[1:], false}, "differences": {page(8, 8, format.DeltaBinaryPacked), delta, false},
		"lengths": {page(8, 8, format.DeltaLengthByteArray), delta, false}, "another encoding": {page(8, 8, format.DeltaByteArray), delta, false},
		"dictionary": {dictionary, nil, false}, "packed dictionary": {packed, delta, false}, "another page": {first, nil, false},
	} {
		a := &auditor{}
		if a.zstd, err = zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxPage)); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := a.page(c.header, c.body, c.zstd, leaf{definition: 1})
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; err == nil || used > 2*maxPage {
			t.Errorf("%s: %v, %d octets", name, err, used)
		}
		a.zstd.Close()
	}
}

// A list's length is checked before memory is allocated for it.
func TestMeasureReadsWhatTheDecoderReads(t *testing.T) {
	h := format.PageHeader{Type: format.DataPageV2, CompressedPageSize: 300}
	h.DataPageHeaderV2.Valid = true
	text, err := thrift.Marshal(&thrift.CompactProtocol{}, &h)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := measure(append(text, 1, 2, 3), 10); n != len(text) || err != nil {
		t.Errorf("%d octets of %d, %v", n, len(text), err)
	}
	for name, text := range map[string][]byte{
		"long list": {0x29, 0xfc, 0xff, 0xff, 0xff, 0x7f}, "long text": {0x18, 0xff, 0xff, 0x7f, 1}, "cut off": text[:len(text)-1], "nothing": nil,
		"unknown kind": {0x1d, 0}, "deep": bytes.Repeat([]byte{0x1c}, 1000), "long map": {0x1b, 0xff, 0xff, 0x7f, 0x88},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := measure(text, 100); err == nil {
				t.Errorf("%s passes", name)
			}
		})
	}
}

// No file causes a panic or takes more memory than a small one may.
func FuzzReadRows(f *testing.F) {
	for _, n := range []int{0, 1, 50} {
		var file bytes.Buffer
		if err := writeSamples(&file, slices.Repeat([]record.Sample{{Labels: record.Labels{"loss": "1%"}, Subject: "flow", Value: 1}}, n)); err != nil {
			f.Fatal(err)
		}
		f.Add(file.Bytes())
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		rows, err := readSamples(content)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > maxOctets {
			t.Errorf("%d octets took %d MiB for %d rows, %v", len(content), used>>20, len(rows), err)
		}
	})
}
