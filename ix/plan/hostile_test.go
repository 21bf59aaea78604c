// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"weir/internal/fault"
	"weir/ix/ixtest"
	"weir/ix/wire"
)

// hostile returns a small zstd file with distinct attribute sets of 60 kB, 128 MiB in all.
func hostile(t *testing.T) []byte {
	var file bytes.Buffer
	pack, err := zstd.NewWriter(&file, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	head := ixtest.Table(hops, nil)
	if _, err := pack.Write(head); err != nil {
		t.Fatal(err)
	}
	const filler = 60_000
	for n := range uint32(128 << 20 / filler) {
		attrs := []byte{0x40, 1, 1, 0, 0x40, 2, 0, 0x40, 3, 4, 10, 99, 1, 1, 0xd0, 250, filler >> 8, filler & 0xff}
		attrs = binary.BigEndian.AppendUint32(attrs, n)
		attrs = append(attrs, make([]byte, filler-4)...)
		body := binary.BigEndian.AppendUint32([]byte{0, 0, 0, 0, 32}, n)
		body = append(body, 0, 1, 0, 0, 0, 0, 0, 0)
		body = binary.BigEndian.AppendUint16(body, uint16(len(attrs)))
		body = append(body, attrs...)
		record := []byte{0, 0, 0, 0, 0, 13, 0, 2}
		record = binary.BigEndian.AppendUint32(record, uint32(len(body)))
		if _, err := pack.Write(append(record, body...)); err != nil {
			t.Fatal(err)
		}
	}
	if err := pack.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// A few kilobytes of compressed attributes must not fill the memory.
func TestHostileCompressionIsBounded(t *testing.T) {
	file := hostile(t)
	if len(file) > 256<<10 {
		t.Fatalf("the file has %d bytes, which justify its memory", len(file))
	}
	name := filepath.Join(t.TempDir(), "rib.zst")
	if err := os.WriteFile(name, file, 0o600); err != nil {
		t.Fatal(err)
	}
	e := exchange(t, sample)
	_, err := Load(e, []string{name}, false)
	if !errors.Is(err, wire.ErrRatio) || fault.Of(err) != fault.Usage || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "MRT: byte ") ||
		!strings.Contains(fault.Advice(err), "decompress it") {
		t.Errorf("error %v, try %q", err, fault.Advice(err))
	}
	table, err := Load(e, []string{name}, true)
	if err != nil {
		t.Fatal(err)
	}
	if size := table.RIB.Stats().Bytes; size > 64<<20 {
		t.Errorf("the table takes %d bytes, from a file of %d", size, len(file))
	}
}
