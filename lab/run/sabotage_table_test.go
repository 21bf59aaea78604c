// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestTheTableOfSabotagesIsTheSuite: docs/results/gate.md has each sabotage of the suite once, with
// a reason, and no other.
func TestTheTableOfSabotagesIsTheSuite(t *testing.T) {
	text, err := os.ReadFile("../../docs/results/gate.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	_, page, found := strings.Cut(page, "\n## Sabotage\n")
	if !found {
		t.Fatal("docs/results/gate.md has no section of sabotages")
	}
	page, _, _ = strings.Cut(page, "\n## ")
	table := regexp.MustCompile(`(?m)^\| (.+?) \| (.+?) \|$`).FindAllStringSubmatch(page, -1)
	var suite, rows []string
	for _, s := range sabotages {
		suite = append(suite, s.name)
	}
	for _, s := range cgroupSabotages {
		suite = append(suite, s.name)
	}
	for _, row := range table {
		if name := row[1]; name != "sabotage" && name != "---" {
			rows = append(rows, name)
		}
	}
	for _, name := range suite {
		if n := count(rows, name); n != 1 {
			t.Errorf("the table has %d rows of %q", n, name)
		}
	}
	for _, name := range rows {
		if n := count(suite, name); n != 1 {
			t.Errorf("the suite has %d sabotages %q, which the table has", n, name)
		}
	}
	if total := fmt.Sprintf("rejects %d of %[1]d", len(suite)); !strings.Contains(page, total) {
		t.Errorf("the page does not say that %s", total)
	}
}

func count(all []string, one string) (n int) {
	for _, name := range all {
		if name == one {
			n++
		}
	}
	return n
}
