// SPDX-License-Identifier: Apache-2.0

// Package tables generates the tables of docs/formats from lists in the code: keys of files,
// metrics, checks, verdicts, capabilities. The descriptions come from the code too. All files are
// tests, because no program needs the package.
//
// A table is between two HTML comments of a page. go generate ./docs/tables replaces the text
// between them:
//
//	<!-- generated: NAME -->
//	<!-- end: NAME -->
package tables

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

//go:generate go test -count=1 -run TestTablesAreCurrent . -args -write

// table is one generated table of a page.
type table struct {
	page, name string
	columns    []string
	rows       [][]string
}

// quoted matches a key in single quotes: struct tags cannot contain backticks.
var quoted = regexp.MustCompile(`(^|[ (])'([^' ][^']*)'`)

func (t table) markdown() string {
	var out strings.Builder
	line := func(cells []string) { fmt.Fprintf(&out, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.columns)
	line(strings.Split(strings.Repeat("---|", len(t.columns)-1)+"---", "|"))
	for _, row := range t.rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = quoted.ReplaceAllString(strings.ReplaceAll(strings.ReplaceAll(cell, "\n", " "), "|", `\|`), "$1`$2`")
		}
		line(cells)
	}
	return out.String()
}

// pages returns the pages with generated tables, by name: have as in folder, want with current
// tables. A table without a place in its page is an error, and so is a place without a table.
func pages(folder string) (have, want map[string]string, err error) {
	all, err := tables()
	if err != nil {
		return nil, nil, err
	}
	have, want = map[string]string{}, map[string]string{}
	for _, t := range all {
		if _, read := have[t.page]; !read {
			text, err := os.ReadFile(filepath.Join(folder, t.page))
			if err != nil {
				return nil, nil, err
			}
			have[t.page], want[t.page] = string(text), string(text)
		}
		if want[t.page], err = put(want[t.page], t.name, t.markdown()); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", t.page, err)
		}
	}
	for page, text := range have {
		places := strings.Count(text, "<!-- generated: ")
		for _, t := range all {
			if t.page == page {
				places--
			}
		}
		if places != 0 {
			return nil, nil, fmt.Errorf("%s has %d places more than there are tables for it", page, places)
		}
	}
	return have, want, nil
}

// put replaces the text between the comments of a name.
func put(page, name, text string) (string, error) {
	begin, end := "<!-- generated: "+name+" -->\n", "<!-- end: "+name+" -->\n"
	before, rest, found := strings.Cut(page, begin)
	if !found {
		return "", fmt.Errorf("there is no %q", strings.TrimSpace(begin))
	}
	_, after, found := strings.Cut(rest, end)
	if !found {
		return "", fmt.Errorf("there is no %q behind its beginning", strings.TrimSpace(end))
	}
	return before + begin + text + end + after, nil
}
