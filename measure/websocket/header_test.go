// SPDX-License-Identifier: Apache-2.0

package websocket

import (
	"bytes"
	"errors"
	"testing"
)

func TestHeadersReadBack(t *testing.T) {
	for _, length := range []uint64{0, 1, 125, 126, 127, 0xffff, 0x10000, 1 << 24, 1<<63 - 1} {
		for _, masked := range []bool{false, true} {
			h := Header{Fin: true, Opcode: Binary, Masked: masked, Length: length}
			if masked {
				h.Key = [4]byte{1, 2, 3, 4}
			}
			b := h.Append(nil)
			got, n, err := ParseHeader(append(b, "payload"...))
			if err != nil || n != len(b) || got != h {
				t.Errorf("length %d, masked %v: %+v, %d of %d bytes, %v", length, masked, got, n, len(b), err)
			}
			for short := range b {
				if _, _, err := ParseHeader(b[:short]); !errors.Is(err, errShort) {
					t.Errorf("length %d: %d of %d bytes: %v", length, short, len(b), err)
				}
			}
		}
	}
}

// RFC 6455, section 5.7, has these examples.
func TestHeadersOfTheRFC(t *testing.T) {
	for _, c := range []struct {
		name string
		b    []byte
		want Header
	}{
		{"unmasked text", []byte{0x81, 0x05}, Header{Fin: true, Opcode: Text, Length: 5}},
		{"masked text", []byte{0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d}, Header{Fin: true, Opcode: Text, Masked: true, Key: [4]byte{0x37, 0xfa, 0x21, 0x3d}, Length: 5}},
		{"first fragment", []byte{0x01, 0x03}, Header{Opcode: Text, Length: 3}},
		{"last fragment", []byte{0x80, 0x02}, Header{Fin: true, Opcode: Continuation, Length: 2}},
		{"Ping", []byte{0x89, 0x05}, Header{Fin: true, Opcode: Ping, Length: 5}},
		{"256 bytes", []byte{0x82, 0x7e, 0x01, 0x00}, Header{Fin: true, Opcode: Binary, Length: 256}},
		{"64 KiB", []byte{0x82, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0}, Header{Fin: true, Opcode: Binary, Length: 65536}},
	} {
		got, n, err := ParseHeader(c.b)
		if err != nil || n != len(c.b) || got != c.want || !bytes.Equal(c.want.Append(nil), c.b) {
			t.Errorf("%s: %+v, %d bytes, %v", c.name, got, n, err)
		}
	}
}

func TestWrongHeadersAreRejected(t *testing.T) {
	for name, b := range map[string][]byte{
		"RSV1":                            {0xc2, 0},
		"RSV3":                            {0x92, 0},
		"opcode 3":                        {0x83, 0},
		"opcode 11":                       {0x8b, 0},
		"opcode 15":                       {0x8f, 0},
		"fragmented Ping":                 {0x09, 0},
		"fragmented Close":                {0x08, 0},
		"Ping of 126 bytes":               {0x89, 0x7e, 0, 126},
		"125 bytes in two":                {0x82, 0x7e, 0, 125},
		"64 KiB - 1 in eight":             {0x82, 0x7f, 0, 0, 0, 0, 0, 0, 0xff, 0xff},
		"2^63 bytes":                      {0x82, 0x7f, 0x80, 0, 0, 0, 0, 0, 0, 0},
		"2^64-1 bytes, masked, in binary": {0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4},
	} {
		_, _, err := ParseHeader(b)
		if status, reason, ok := StatusOf(err); !ok || status != Protocol || reason == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzParseHeader checks that a header in its shortest form is its own encoding, and that nothing
// else is accepted.
func FuzzParseHeader(f *testing.F) {
	f.Add([]byte{0x82, 0xfe, 1, 0, 1, 2, 3, 4, 5})
	f.Add([]byte{0x88, 0x02, 3, 0xe8})
	f.Add([]byte{0x82, 0x7f, 0, 0, 0, 0, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, n, err := ParseHeader(b)
		if err != nil {
			return
		}
		if n < 2 || n > MaxHeaderLen || !bytes.Equal(h.Append(nil), b[:n]) {
			t.Errorf("% x: %+v of %d bytes is encoded as % x", b, h, n, h.Append(nil))
		}
		if h.Length > 1<<63-1 || h.Opcode.control() && (h.Length > 125 || !h.Fin) {
			t.Errorf("% x: %+v", b, h)
		}
	})
}
