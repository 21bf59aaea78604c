// SPDX-License-Identifier: Apache-2.0

package texttable

import (
	"strings"
	"testing"
)

func TestWriteAlignsFiguresToTheRightAndWordsToTheLeft(t *testing.T) {
	var out strings.Builder
	err := Write(&out, "Goodput", "± is the 95 % interval", []string{"flow", "Mbit/s"}, [][]string{{"bulk", "5 ± 1"}, {"π", "1000 ± 20"}, {"short"}})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"Goodput",
		"flow      Mbit/s",
		"─────  ─────────",
		"bulk       5 ± 1",
		"π      1000 ± 20",
		"short",
		"± is the 95 % interval",
		"",
	}, "\n")
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
