// SPDX-License-Identifier: Apache-2.0

package nearest

import (
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	keys := []string{"rate", "delay", "jitter", "keep_order", "duplicate", "ecn"}
	for _, c := range []struct{ word, want string }{
		{"rat", "rate"},
		{"Rate", "rate"},
		{"dealy", "delay"},
		{"keeporder", "keep_order"},
		{"duplicates", "duplicate"},
		{"enc", "ecn"},
		{"bandwidth", ""},
		{"", ""},
		{"x", ""},
		{strings.Repeat("rate", 100), ""},
	} {
		t.Run("word="+c.word[:min(len(c.word), 12)], func(t *testing.T) {
			if got := Of(c.word, keys); got != c.want {
				t.Errorf("Of(%q) = %q, want %q", c.word, got, c.want)
			}
		})
	}
	if got := Of("a", []string{"b", "c"}); got != "b" {
		t.Errorf("one-letter words: %q, want the first candidate", got)
	}
}

func TestHint(t *testing.T) {
	if got, want := Hint("dely", []string{"delay"}), ` (did you mean "delay"?)`; got != want {
		t.Errorf("Hint = %q, want %q", got, want)
	}
	if got := Hint("zzzzzz", []string{"delay"}); got != "" {
		t.Errorf("Hint of a far word = %q, want none", got)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"ab", "ba", 1}, {"kitten", "sitting", 3}, {"ca", "abc", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
