// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// maxWindow limits the memory of a zstd frame: 128 MiB, the window of `zstd --long`.
const maxWindow = 128 << 20

// A stream may decompress to freeBytes plus maxRatio times the compressed bytes. Tables of route
// collectors have ratios of 15 (bzip2) to 17 (zstd -19). A few kilobytes of hostile zstd would
// otherwise fill the memory with distinct attributes.
const (
	freeBytes = 16 << 20
	maxRatio  = 100
)

// ErrRatio is the cause of an [Error] for a compressed file with a ratio far above that of routing
// tables.
var ErrRatio = fmt.Errorf("it decompresses to more than %d MiB and %d times its bytes", freeBytes>>20, maxRatio)

// counter counts the bytes read from a stream.
type counter struct {
	io.Reader
	n int64
}

func (c *counter) Read(p []byte) (n int, err error) {
	n, err = c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// bounded returns [ErrRatio] for bytes beyond the ratio.
type bounded struct {
	plain  io.Reader
	packed *counter
	n      int64
}

func (b *bounded) Read(p []byte) (n int, err error) {
	left := freeBytes + maxRatio*b.packed.n - b.n
	if left <= 0 {
		return 0, ErrRatio
	}
	n, err = b.plain.Read(p[:min(int64(len(p)), left)])
	b.n += int64(n)
	return n, err
}

// magics are the first bytes of compressed files.
var magics = []struct {
	name  string
	magic []byte
	open  func(io.Reader) (io.Reader, error)
}{
	{"gzip", []byte{0x1f, 0x8b}, func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }},
	{"bzip2", []byte("BZh"), func(r io.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil }},
	{"zstd", []byte{0x28, 0xb5, 0x2f, 0xfd}, func(r io.Reader) (io.Reader, error) {
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
	}},
}

// decompress returns the decompressed form of a stream, found by its first bytes, and the name of
// the compression, "" for none.
func decompress(r io.Reader) (io.Reader, string, error) {
	packed := &counter{Reader: r}
	source := bufio.NewReaderSize(packed, 64<<10)
	head, err := source.Peek(4)
	if err != nil && err != io.EOF {
		return nil, "", err
	}
	for _, m := range magics {
		if !bytes.HasPrefix(head, m.magic) {
			continue
		}
		plain, err := m.open(source)
		if err != nil {
			return nil, m.name, fmt.Errorf("open as %s: %w", m.name, err)
		}
		return &bounded{plain: plain, packed: packed}, m.name, nil
	}
	return source, "", nil
}
