// SPDX-License-Identifier: Apache-2.0

package link

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReadTrace(t *testing.T) {
	const one = Opportunity * 8 * 1000
	ms := time.Millisecond
	for _, c := range []struct {
		text string
		want []Step
		err  string
	}{
		{"1\n", []Step{{For: ms, BitsPerSecond: one}}, ""},
		{"1\n1\n2\n", []Step{{For: ms, BitsPerSecond: 2 * one}, {For: ms, BitsPerSecond: one}}, ""},
		{"0\n3\n\n7\n7\n", []Step{{For: ms, BitsPerSecond: one}, {For: ms}, {For: ms, BitsPerSecond: one}, {For: 3 * ms}, {For: ms, BitsPerSecond: 2 * one}}, ""},
		{"5\n", []Step{{For: 4 * ms}, {For: ms, BitsPerSecond: one}}, ""},
		{"2\n1\n", nil, "line 2: 1 comes before 2"},
		{"x\n", nil, `line 1: "x" is no time`},
		{"\n", nil, "no line has a time"},
	} {
		got, err := ReadTrace(c.text)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %v, want %q", c.text, err, c.err)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%q (-want +got):\n%s", c.text, d)
		}
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add("1\n1\n2\n")
	f.Fuzz(func(t *testing.T, text string) {
		steps, err := ReadTrace(text)
		if err != nil {
			return
		}
		for _, s := range steps {
			if s.For <= 0 || s.BitsPerSecond < 0 {
				t.Errorf("step %+v", s)
			}
		}
	})
}
