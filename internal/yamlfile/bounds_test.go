// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"weir/internal/fault"
)

// hostile are texts that repeat something small up to the maximum length of a file.
func hostile(octets int) map[string]string {
	repeat := func(head, part, tail string) string {
		return head + strings.Repeat(part, (octets-len(head)-len(tail))/len(part)) + tail
	}
	var keys strings.Builder
	for i := 0; keys.Len() < octets-16; i++ {
		fmt.Fprintf(&keys, "k%d: v\n", i)
	}
	return map[string]string{
		"merge keys": repeat("a: &x {k: 1}\nb:\n", "  <<: *x\n", ""), "list": repeat("", "- a\n", ""), "empty list": repeat("", "-\n", ""),
		"lists on a line": repeat("", strings.Repeat("- ", 30)+"\n", ""), "keys": keys.String(), "same keys": repeat("", "a: 1\n", ""),
		"words": repeat("", "a\n", ""), "flow": repeat("a: [", "1,\n ", "]"), "open": repeat("", "a: [\n", ""), "close": repeat("", "]\n", ""),
		"question marks": repeat("", "? a\n", ""), "anchors": repeat("", "a: &x\n", ""), "tags": repeat("", "a: !x\n", ""),
		"aliases": repeat("a: &x [1, 2, 3]\nb:\n", "- *x\n", ""), "documents": repeat("", "--- a\n", ""), "comments": repeat("", "# c\n", ""),
		"quoted": repeat("a: \"", "  a\n", "\""), "literal": repeat("a: |\n", "  a\n", ""), "stairs": stairs(octets),
	}
}

func stairs(octets int) string {
	var b strings.Builder
	for i := 0; b.Len()+i+3 < octets && i < maxLine-3; i++ {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

// allocated returns the memory that parsing a text requests, in bytes and in pieces: the cost of a
// step is bounded, so this bounds the time too.
func allocated(limits Limits, text string) (octets, pieces uint64, err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = ParseWithin(limits, "f.yaml", []byte(text))
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, after.Mallocs - before.Mallocs, err
}

// Work grows linearly with the length of a file, for any content: a file four times as long may
// cost little more than four times as much.
func TestWorkGrowsWithTheFile(t *testing.T) {
	const small = 32 << 10
	limits := Limits{Octets: 4 * small, Values: 4 * small}
	long := hostile(4 * small)
	for name, text := range hostile(small) {
		octets, pieces, err := allocated(limits, text)
		moreOctets, morePieces, _ := allocated(limits, long[name])
		if moreOctets > 6*octets+1<<20 || morePieces > 6*pieces+1000 {
			t.Errorf("%s: %d octets in %d pieces, and for four times the text %d in %d", name, octets, pieces, moreOctets, morePieces)
		}
		if octets > 1000*small {
			t.Errorf("%s: %d octets of memory for %d of text", name, octets, small)
		}
		if err != nil && fault.Of(err) != fault.Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A file with more values than its format allows is rejected before the library makes nodes of
// them.
func TestTooManyValuesCostNothing(t *testing.T) {
	const octets = 8 << 20
	for _, part := range []string{"- ", "-\n", "a:\n"} {
		text := strings.Repeat(strings.Repeat(part, 1000)+"\n", octets/(1000*len(part)+1))
		used, _, err := allocated(Limits{Octets: octets, Values: 500_000}, text)
		if err == nil || used > 4*octets {
			t.Errorf("%q: %v, with %d octets of memory", part, err, used)
		}
	}
}

func TestBoundsAreTheFormatsOwn(t *testing.T) {
	text := []byte("a: 1\nb: 2\nc: 3")
	for _, test := range []struct {
		limits Limits
		want   string
	}{
		{Limits{Octets: 13, Values: 10}, "f.yaml: the file has 14 octets; 13 are allowed"},
		{Limits{Octets: 14, Values: 3}, "f.yaml:3:4: the file has more than 3 values once its aliases are expanded"},
	} {
		if _, err := ParseWithin(test.limits, "f.yaml", text); err == nil || err.Error() != test.want {
			t.Errorf("%+v: got %v, want %s", test.limits, err, test.want)
		}
	}
	if _, err := ParseWithin(Limits{Octets: 14, Values: 4}, "f.yaml", text); err != nil {
		t.Error(err)
	}
}
