// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/kernel/probe"
	"weir/kernel/testutil"
	"weir/modules"
)

// release is the major and minor version of a kernel.
type release [2]int

func (r release) before(other release) bool {
	return r[0] < other[0] || r[0] == other[0] && r[1] < other[1]
}

// minKernels reads the table of docs/kernels.md: capability to release.
func minKernels(t *testing.T) map[string]release {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "kernels.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "| capability | minimum |")
	table, _, ended := strings.Cut(table, "\n\n")
	if !found || !ended {
		t.Fatal("docs/kernels.md has no table of minimum kernels")
	}
	least := map[string]release{}
	name := regexp.MustCompile("`([^`]+)`")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		var r release
		if _, err := fmt.Sscanf(strings.TrimSpace(cells[2]), "%d.%d", &r[0], &r[1]); err != nil {
			continue // the ruler
		}
		for _, match := range name.FindAllStringSubmatch(cells[1], -1) {
			least[match[1]] = r
		}
	}
	return least
}

// docs/kernels.md holds on distribution kernels: from its minimum version on, a capability has its
// best mechanism; below it, another one or none.
func TestMinimumKernels(t *testing.T) {
	testutil.NeedRoot(t)
	least := minKernels(t)
	text, err := probe.Release()
	if err != nil {
		t.Fatal(err)
	}
	var here release
	if _, err := fmt.Sscanf(text, "%d.%d", &here[0], &here[1]); err != nil {
		t.Fatalf("kernel %s: %v", text, err)
	}
	stock := strings.HasPrefix(os.Getenv("TEST_KERNEL"), "debian-")
	for _, c := range Examine(modules.All()).Capabilities {
		from, listed := least[c.Name]
		delete(least, c.Name)
		switch {
		case !listed:
			t.Errorf("docs/kernels.md does not say what %s takes", c.Name)
		case !stock: // other kernels may lack any feature
		case here.before(from) && c.State == Available && len(c.Missing) == 0:
			t.Errorf("%s is there on %s, and docs/kernels.md says from %v on", c.Name, text, from)
		case !here.before(from) && (c.State != Available || len(c.Missing) > 0):
			t.Errorf("%s is %s on %s (%v are missing), and docs/kernels.md says from %v on", c.Name, c.State, text, c.Missing, from)
		}
	}
	for name := range least {
		t.Errorf("docs/kernels.md speaks of %s, which doctor does not know", name)
	}
}
