// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Footer and page headers of Parquet are Thrift structures in the compact protocol. The library's
// decoder allocates a list of any stated length, and then reads it. measure walks a structure
// first, so that only structures with consistent lengths are decoded.
const (
	thriftBool, thriftFalse, thriftByte   = 1, 2, 3
	thriftDouble, thriftBinary            = 7, 8
	thriftList, thriftSet                 = 9, 10
	thriftMap, thriftStruct, thriftLevels = 11, 12, 16
)

var errThrift = errors.New("a structure of the file does not end where it should")

type thriftWalk struct {
	text     []byte // rest
	elements int    // of lists and maps that are still allowed
}

// measure returns the length of the structure at the start of text. All its lists together may have
// elements entries.
func measure(text []byte, elements int) (int, error) {
	w := thriftWalk{text, elements}
	if err := w.structure(thriftLevels); err != nil {
		return 0, err
	}
	return len(text) - len(w.text), nil
}

func (w *thriftWalk) skip(n uint64) error {
	if n > uint64(len(w.text)) {
		return errThrift
	}
	w.text = w.text[n:]
	return nil
}

func (w *thriftWalk) octet() (byte, error) {
	if len(w.text) == 0 {
		return 0, errThrift
	}
	b := w.text[0]
	w.text = w.text[1:]
	return b, nil
}

func (w *thriftWalk) varint() (uint64, error) {
	v, n := binary.Uvarint(w.text)
	if n <= 0 {
		return 0, errThrift
	}
	w.text = w.text[n:]
	return v, nil
}

func (w *thriftWalk) structure(levels int) error {
	for {
		head, err := w.octet()
		if err != nil || head == 0 {
			return err
		}
		if head>>4 == 0 { // the field's number follows
			if _, err := w.varint(); err != nil {
				return err
			}
		}
		kind := head & 15
		if kind == thriftBool || kind == thriftFalse {
			continue // the kind is the value
		}
		if err := w.value(kind, levels-1); err != nil {
			return err
		}
	}
}

func (w *thriftWalk) value(kind byte, levels int) error {
	if levels < 0 {
		return errThrift
	}
	switch kind {
	case thriftBool, thriftFalse, thriftByte:
		return w.skip(1)
	case thriftByte + 1, thriftByte + 2, thriftByte + 3: // integers of 16, 32 and 64 bits
		_, err := w.varint()
		return err
	case thriftDouble:
		return w.skip(8)
	case thriftBinary:
		n, err := w.varint()
		return errors.Join(err, w.skip(n))
	case thriftList, thriftSet:
		return w.list(levels)
	case thriftMap:
		return w.dictionary(levels)
	case thriftStruct:
		return w.structure(levels)
	}
	return fmt.Errorf("a structure of the file has a value of the unknown kind %d", kind)
}

func (w *thriftWalk) list(levels int) error {
	head, err := w.octet()
	if err != nil {
		return err
	}
	n := uint64(head >> 4)
	if n == 15 {
		if n, err = w.varint(); err != nil {
			return err
		}
	}
	return w.repeat(n, levels, head&15)
}

func (w *thriftWalk) dictionary(levels int) error {
	n, err := w.varint()
	if err != nil || n == 0 {
		return err
	}
	kinds, err := w.octet()
	if err != nil {
		return err
	}
	return w.repeat(n, levels, kinds>>4, kinds&15)
}

// repeat walks n times over values of these kinds.
func (w *thriftWalk) repeat(n uint64, levels int, kinds ...byte) error {
	if n > uint64(w.elements) {
		return errors.New("the lists of a structure of the file are too long")
	}
	w.elements -= int(n)
	for range n {
		for _, kind := range kinds {
			if err := w.value(kind, levels-1); err != nil {
				return err
			}
		}
	}
	return nil
}
