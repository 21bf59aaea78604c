// SPDX-License-Identifier: Apache-2.0

// Package framing separates NETCONF messages in a byte stream: by an end mark (base:1.0, RFC 4742)
// until both peers announce base:1.1, and in chunks afterwards (RFC 6242 section 4).
package framing

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// MaxMessage is the default limit of a message in bytes.
const MaxMessage = 16 << 20

// ErrTooBig is in the chain of errors for messages beyond the limit.
var ErrTooBig = errors.New("message is too big")

var mark = []byte("]]>]]>")

// Reader reads messages. One goroutine uses it.
type Reader struct {
	in      *bufio.Reader
	max     int
	chunked bool
}

// NewReader returns a reader with end marks; max is the limit of a message in bytes.
func NewReader(in io.Reader, max int) *Reader {
	return &Reader{in: bufio.NewReaderSize(in, 64<<10), max: max}
}

// SetChunked switches between end marks and chunks.
func (r *Reader) SetChunked(on bool) { r.chunked = on }

// Read returns the next message. io.EOF is the end of the stream between two messages.
func (r *Reader) Read() ([]byte, error) {
	if r.chunked {
		return r.chunks()
	}
	return r.marked()
}

func (r *Reader) marked() ([]byte, error) {
	var message []byte
	for {
		part, err := r.in.ReadSlice('>')
		message = append(message, part...)
		switch {
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			if len(bytes.TrimSpace(message)) > 0 && err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		case bytes.HasSuffix(message, mark):
			return message[:len(message)-len(mark)], nil
		case len(message) > r.max:
			return nil, fmt.Errorf("%w: more than %d bytes", ErrTooBig, r.max)
		}
	}
}

func (r *Reader) chunks() ([]byte, error) {
	var message []byte
	for first := true; ; first = false {
		size, err := r.header(first)
		if err != nil {
			return nil, err
		}
		if size == 0 {
			if first {
				return nil, errors.New("framing: a message without a chunk")
			}
			return message, nil
		}
		if size > r.max-len(message) {
			return nil, fmt.Errorf("%w: more than %d bytes", ErrTooBig, r.max)
		}
		if message, err = r.chunk(message, size); err != nil {
			return nil, err
		}
	}
}

// chunk appends a chunk in steps: memory follows the data that arrived, not the announced size.
func (r *Reader) chunk(message []byte, size int) ([]byte, error) {
	const step = 64 << 10
	for size > 0 {
		n, at := min(size, step), len(message)
		message = append(message, make([]byte, n)...)
		if _, err := io.ReadFull(r.in, message[at:]); err != nil {
			return nil, unexpected(err)
		}
		size -= n
	}
	return message, nil
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// header reads "\n#SIZE\n", or "\n##\n" as size 0.
func (r *Reader) header(first bool) (int, error) {
	for i, want := range []byte("\n#") {
		c, err := r.in.ReadByte()
		if err != nil {
			if first && i == 0 {
				return 0, err
			}
			return 0, unexpected(err)
		}
		if c != want {
			return 0, fmt.Errorf("framing: %q where a chunk begins", c)
		}
	}
	var digits []byte
	for {
		c, err := r.in.ReadByte()
		switch {
		case err != nil:
			return 0, unexpected(err)
		case c == '\n':
			return chunkSize(digits)
		case len(digits) == len("4294967295"):
			return 0, errors.New("framing: the chunk size has more than 10 digits")
		}
		digits = append(digits, c)
	}
}

func chunkSize(digits []byte) (int, error) {
	if string(digits) == "#" {
		return 0, nil
	}
	size, err := strconv.ParseUint(string(digits), 10, 32)
	if err != nil || digits[0] < '1' || digits[0] > '9' {
		return 0, fmt.Errorf("framing: %q is no chunk size", digits)
	}
	return int(size), nil
}

// Append appends a framed message.
func Append(to []byte, message string, chunked bool) []byte {
	if !chunked {
		return append(append(to, message...), mark...)
	}
	to = fmt.Appendf(to, "\n#%d\n", len(message))
	return append(append(to, message...), "\n##\n"...)
}
