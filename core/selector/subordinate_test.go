// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/core/match"
	"weir/core/policy"
)

func TestAUserHasItsSubordinateIDs(t *testing.T) {
	many := strings.Builder{}
	for i := range 40 {
		fmt.Fprintf(&many, "0:%d:3\n", 1_000_001+10*i)
	}
	for name, c := range map[string]struct {
		text, want string
		keys       int
		fails      bool
	}{
		"none":             {"", "", 1, false},
		"by name":          {"root:131072:65536\n", "131072:65536", 2, false},
		"by id":            {"0:131072:65536", "131072:65536", 2, false},
		"several":          {"root:131072:65536\ndaemon:196608:65536\n0:262144:1\n", "131072:65536,262144:1", 3, false},
		"others":           {"daemon:131072:65536\nroots:1:1\n", "", 1, false},
		"malformed":        {"root:x:1\nroot:1\nroot\nroot:1:0\nroot:5:-1\n\n::\n", "", 1, false},
		"too many to hold": {many.String(), "", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "subuid")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			b, err := (&Host{SubordinateIDs: file}).Bind(policy.Selector{Kind: "user", Text: "0"})
			if (err != nil) != c.fails {
				t.Fatal(err)
			}
			want := []match.Key{match.OfUser(0)}
			for ids := range strings.SplitSeq(c.want, ",") {
				if first, count, is := readRange(ids); is {
					want = append(want, match.OfUsers(first, count)...)
				}
			}
			if err == nil && (!slices.Equal(b.Keys(), want) || len(b.Keys()) != c.keys) {
				t.Errorf("keys %v, want %v, of which there are %d", b.Keys(), want, c.keys)
			}
		})
	}
	b, err := (&Host{SubordinateIDs: filepath.Join(t.TempDir(), "missing")}).Bind(policy.Selector{Kind: "user", Text: "0"})
	if err != nil || len(b.Keys()) != 1 {
		t.Errorf("without a file: %+v, %v", b, err)
	}
}
