// SPDX-License-Identifier: Apache-2.0

package framing

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func readAll(in string, chunked bool, max int) (messages []string, err error) {
	r := NewReader(strings.NewReader(in), max)
	r.SetChunked(chunked)
	for {
		m, err := r.Read()
		if err != nil {
			return messages, err
		}
		messages = append(messages, string(m))
	}
}

func TestMessages(t *testing.T) {
	for _, c := range []struct {
		name, in string
		chunked  bool
		want     []string
		fails    string
	}{
		{"two with marks", "<a/>]]>]]><b/>]]>]]>", false, []string{"<a/>", "<b/>"}, ""},
		{"a mark inside an almost mark", "<a>]]></a>]]>]]]>]]>", false, []string{"<a>]]></a>]]>]"}, ""},
		{"white space at the end", "<a/>]]>]]>\n", false, []string{"<a/>"}, ""},
		{"cut off", "<a/>", false, nil, "unexpected EOF"},
		{"RFC 6242 section 4.2", "\n#4\n<rpc\n#5\n id=1\n#2\n/>\n##\n", true, []string{"<rpc id=1/>"}, ""},
		{"no chunk", "\n##\n", true, nil, "without a chunk"},
		{"leading zero", "\n#04\n<a/>\n##\n", true, nil, "no chunk size"},
		{"size zero", "\n#0\n\n##\n", true, nil, "no chunk size"},
		{"too many digits", "\n#12345678901\n", true, nil, "more than 10 digits"},
		{"no line feed first", "#4\n<a/>\n##\n", true, nil, "where a chunk begins"},
		{"too big", "\n#5000\n", true, nil, "too big"},
		{"cut chunk", "\n#400\n<a/>", true, nil, "unexpected EOF"},
	} {
		got, err := readAll(c.in, c.chunked, 4096)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if c.fails == "" && !errors.Is(err, io.EOF) || c.fails != "" && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %v, want %q", c.name, err, c.fails)
		}
	}
}

func TestTooBigWithMark(t *testing.T) {
	if _, err := readAll(strings.Repeat("<a>", 100), false, 200); !errors.Is(err, ErrTooBig) {
		t.Error(err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("\n#4\n<a/>\n##\n"), true)
	f.Add([]byte("<a/>]]>]]>"), false)
	f.Add([]byte("\n#4294967295\n"), true)
	f.Fuzz(func(t *testing.T, in []byte, chunked bool) {
		r := NewReader(bytes.NewReader(in), 4096)
		r.SetChunked(chunked)
		for {
			m, err := r.Read()
			if err != nil {
				return
			}
			if chunked && len(m) > 4096 {
				t.Fatalf("%d bytes", len(m))
			}
			if chunked { // a framed message reads back
				again := NewReader(bytes.NewReader(Append(nil, string(m), true)), 1<<20)
				again.SetChunked(true)
				if got, err := again.Read(); err != nil || !bytes.Equal(got, m) {
					t.Fatalf("%q reads back as %q, %v", m, got, err)
				}
			}
		}
	})
}
