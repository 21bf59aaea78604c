// SPDX-License-Identifier: Apache-2.0

package texttable

import (
	"strings"
	"testing"
)

func TestTablesObeyNobodysNames(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := Write(&out, "a\x1b[2Jb", "first\nsecond \a", []string{"name"}, [][]string{{"e\x1b]0;title\a"}, {"x\ny"}, {"a\u202eb"}}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\a\u202e") || strings.Count(out.String(), "\n") != 8 {
		t.Errorf("%q", out.String())
	}
}
