// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bytes"
	"maps"
	"testing"
)

func FuzzReadSums(f *testing.F) {
	f.Add([]byte("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  plots/a b.svg\n"))
	f.Add([]byte("e3b0  short\n"))
	f.Add([]byte("no sum"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) {
		read, err := readSums(text)
		if err != nil {
			return
		}
		var written bytes.Buffer
		if err := read.write(&written); err != nil {
			t.Fatal(err)
		}
		again, err := readSums(written.Bytes())
		if err != nil || !maps.Equal(read, again) {
			t.Fatalf("%q was read as %v, written and read as %v: %v", text, read, again, err)
		}
	})
}

func TestSumsNoticeAChange(t *testing.T) {
	read, err := readSums([]byte("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  empty\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := read.check("empty", nil); err != nil {
		t.Errorf("an empty file: %v", err)
	}
	if read.check("empty", []byte{0}) == nil || read.check("other", nil) == nil {
		t.Error("a changed or unlisted file passes")
	}
}
