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
	source := bufio.NewReaderSize(r, 64<<10)
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
		return plain, m.name, nil
	}
	return source, "", nil
}
