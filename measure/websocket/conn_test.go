// SPDX-License-Identifier: Apache-2.0

package websocket

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// script is a stream that reads given bytes and keeps written ones.
type script struct {
	io.Reader
	written bytes.Buffer
}

func (s *script) Write(p []byte) (int, error)      { return s.written.Write(p) }
func (*script) Close() error                       { return nil }
func (*script) LocalAddr() net.Addr                { return nil }
func (*script) RemoteAddr() net.Addr               { return nil }
func (*script) SetDeadline(time.Time) error        { return nil }
func (*script) SetReadDeadline(t time.Time) error  { return nil }
func (*script) SetWriteDeadline(t time.Time) error { return nil }

var testLimits = Limits{Text: 100, Binary: 1000, Messages: 10}

// serverOf returns a server's connection that reads b.
func serverOf(t *testing.T, b []byte) (*Conn, *script) {
	t.Helper()
	s := &script{Reader: bytes.NewReader(b)}
	c, err := newConn(s, false, testLimits, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

// frame encodes a masked frame of a client.
func frame(fin bool, o Opcode, payload string) []byte {
	h := Header{Fin: fin, Opcode: o, Masked: true, Key: [4]byte{9, 8, 7, 6}, Length: uint64(len(payload))}
	b := append(h.Append(nil), payload...)
	h.mask(b[len(b)-len(payload):], 0)
	return b
}

func TestMessagesOfAClient(t *testing.T) {
	long := strings.Repeat("b", 900)
	var in []byte
	for _, f := range [][]byte{
		frame(true, Text, "one"), frame(false, Text, "t"), frame(true, Ping, "in between"), frame(false, Continuation, "w"), frame(true, Continuation, "o"),
		frame(true, Binary, long), frame(false, Binary, "12"), frame(true, Continuation, "345"), frame(true, Pong, "7"), frame(true, Close, "\x03\xe8bye"),
	} {
		in = append(in, f...)
	}
	c, s := serverOf(t, in)
	for i, want := range []Message{
		{Opcode: Text, Payload: []byte("one")}, {Opcode: Ping, Payload: []byte("in between")}, {Opcode: Text, Payload: []byte("two")},
		{Opcode: Binary}, {Opcode: Binary}, {Opcode: Pong, Payload: []byte("7")}, {Opcode: Close, Payload: []byte("bye"), Status: Normal},
	} {
		got, err := c.Next()
		if err != nil || got.Opcode != want.Opcode || got.Status != want.Status || !bytes.Equal(got.Payload, want.Payload) {
			t.Fatalf("message %d: %+v %q, %v", i, got, got.Payload, err)
		}
	}
	if want := uint64(3 + 3 + 900 + 5); c.Received() != want {
		t.Errorf("received %d bytes, want %d", c.Received(), want)
	}
	if want := "\x8a\x0ain between"; s.written.String() != want {
		t.Errorf("answered %q, want the Pong %q", s.written.String(), want)
	}
	if _, err := c.Next(); err != io.EOF {
		t.Errorf("after Close: %v", err)
	}
}

func TestViolationsHaveAStatus(t *testing.T) {
	unmasked := Header{Fin: true, Opcode: Text, Length: 1}.Append(nil)
	huge := Header{Fin: true, Opcode: Binary, Masked: true, Length: 1<<63 - 1}.Append(nil)
	for _, c := range []struct {
		name string
		in   [][]byte
		want Status
	}{
		{"unmasked", [][]byte{append(unmasked, 'x')}, Protocol},
		{"continuation of nothing", [][]byte{frame(true, Continuation, "x")}, Protocol},
		{"text inside text", [][]byte{frame(false, Text, "x"), frame(true, Text, "y")}, Protocol},
		{"binary inside text", [][]byte{frame(false, Text, "x"), frame(true, Binary, "y")}, Protocol},
		{"frame after Close", [][]byte{frame(true, Close, ""), frame(true, Text, "x")}, Protocol},
		{"Close of one byte", [][]byte{frame(true, Close, "x")}, Protocol},
		{"Close with status 1005", [][]byte{frame(true, Close, "\x03\xed")}, Protocol},
		{"Close with status 99", [][]byte{frame(true, Close, "\x00\x63")}, Protocol},
		{"Close with a reason in Latin-1", [][]byte{frame(true, Close, "\x03\xe8\xe4")}, Protocol},
		{"text in Latin-1", [][]byte{frame(true, Text, "\xe4")}, Invalid},
		{"text of 101 bytes", [][]byte{frame(true, Text, strings.Repeat("x", 101))}, TooBig},
		{"text of 101 bytes in fragments", [][]byte{frame(false, Text, strings.Repeat("x", 60)), frame(true, Continuation, strings.Repeat("x", 41))}, TooBig},
		{"binary of 1001 bytes", [][]byte{frame(true, Binary, strings.Repeat("x", 1001))}, TooBig},
		{"binary of 1001 bytes in fragments", [][]byte{frame(false, Binary, strings.Repeat("x", 1000)), frame(true, Continuation, "x")}, TooBig},
		{"binary of 2^63-1 bytes", [][]byte{huge}, TooBig},
		{"11 texts", [][]byte{bytes.Repeat(frame(true, Text, "x"), 11)}, Policy},
		{"11 Pings", [][]byte{bytes.Repeat(frame(true, Ping, ""), 11)}, Policy},
		{"empty fragments without end", [][]byte{frame(false, Binary, "x"), bytes.Repeat(frame(false, Continuation, ""), 11)}, Policy},
	} {
		conn, _ := serverOf(t, bytes.Join(c.in, nil))
		var err error
		for err == nil {
			_, err = conn.Next()
		}
		if status, reason, ok := StatusOf(err); !ok || status != c.want || reason == "" {
			t.Errorf("%s: status %d, %v; want %d", c.name, status, err, c.want)
		}
	}
}

func TestACutStreamIsNoViolation(t *testing.T) {
	whole := append(frame(false, Text, "abc"), frame(true, Continuation, strings.Repeat("d", 90))...)
	for n := range whole {
		c, _ := serverOf(t, whole[:n])
		var err error
		for err == nil {
			_, err = c.Next()
		}
		if _, _, violated := StatusOf(err); violated {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
}

// FuzzConn reads any bytes as the frames of a client. Its memory stays within the limits.
func FuzzConn(f *testing.F) {
	f.Add(frame(true, Text, "one"))
	f.Add(append(frame(false, Binary, "one"), frame(true, Continuation, "two")...))
	f.Add(append(frame(true, Ping, "p"), frame(true, Close, "\x03\xe8")...))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, s := serverOf(t, b)
		messages := 0
		for {
			m, err := c.Next()
			if err != nil {
				break
			}
			if messages++; len(m.Payload) > testLimits.Text && m.Opcode == Text || messages > len(b) {
				t.Fatalf("message %d: %+v of %d bytes", messages, m.Opcode, len(m.Payload))
			}
		}
		if c.Received() > uint64(len(b)) || cap(c.text) > 2*testLimits.Text+64 || s.written.Len() > testLimits.Messages*(maxControl+2) {
			t.Errorf("received %d of %d bytes, buffers %d, wrote %d", c.Received(), len(b), cap(c.text), s.written.Len())
		}
	})
}
