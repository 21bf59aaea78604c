// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// tracked lists git's files with one of these endings, except generated ones.
func tracked(t *testing.T, endings ...string) (all []string) {
	t.Helper()
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	output, err := list.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	for _, name := range strings.Split(strings.TrimRight(string(output), "\x00"), "\x00") {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil || strings.Contains(name, "_bpfel") {
			continue
		}
		for _, ending := range endings {
			if strings.HasSuffix(name, ending) {
				all = append(all, name)
			}
		}
	}
	return all
}

func lines(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n")
}

// Every source names its license in its first lines, for tools.
func TestSourcesNameTheirLicense(t *testing.T) {
	for _, name := range tracked(t, ".go", ".c", ".h") {
		head := strings.Join(lines(t, name)[:3], "\n")
		if !strings.Contains(head, "SPDX-License-Identifier: ") {
			t.Errorf("%s: its first lines lack SPDX-License-Identifier", name)
		}
	}
}

// maxColumns is the maximum width of prose; a tab counts as four.
const maxColumns = 100

var (
	comment = regexp.MustCompile(`^\s*(//|\*|/\*) `)
	list    = regexp.MustCompile(`^\s*([-*]|\d+\.) `)
)

func columns(line string) int { return len([]rune(strings.ReplaceAll(line, "\t", "    "))) }

// breakable reports whether a long line can be broken.
func breakable(line string) bool {
	text := strings.TrimSpace(list.ReplaceAllString(comment.ReplaceAllString(line, ""), ""))
	// Code, links and drawings are kept whole.
	return strings.Contains(text, " ") && !strings.Contains(text, "  ") && !strings.Contains(text, "--->") &&
		!strings.Contains(text, "`") && !strings.Contains(text, "](")
}

func TestProseFitsItsColumns(t *testing.T) {
	for _, name := range tracked(t, ".md") {
		fence := false
		for i, line := range lines(t, name) {
			trimmed := strings.TrimSpace(line)
			if strings.HasPrefix(trimmed, "```") {
				fence = !fence
			}
			if fence || strings.HasPrefix(trimmed, "|") || strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, "<") || strings.HasPrefix(line, "    ") {
				continue
			}
			if columns(line) > maxColumns && breakable(line) {
				t.Errorf("%s:%d has %d columns, more than %d", name, i+1, columns(line), maxColumns)
			}
		}
	}
	for _, name := range tracked(t, ".go", ".c", ".h") {
		for i, line := range lines(t, name) {
			if columns(line) > maxColumns && comment.MatchString(line) && !strings.Contains(line, "go:generate") && breakable(line) {
				t.Errorf("%s:%d has a comment of %d columns, more than %d", name, i+1, columns(line), maxColumns)
			}
		}
	}
}
