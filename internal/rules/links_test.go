// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	proseLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	fence     = regexp.MustCompile("(?ms)^```.*?^```")
	unanchor  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors lists the anchors of a page's headings.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		all[strings.ReplaceAll(unanchor.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")] = true
	}
	return all
}

// Links in documents lead to existing files and headings.
func TestLinksLeadSomewhere(t *testing.T) {
	for _, from := range tracked(t, ".md") {
		text := strings.Join(lines(t, from), "\n")
		for _, link := range proseLink.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			file, anchor, _ := strings.Cut(link[1], "#")
			to := filepath.Join(filepath.Dir(from), file)
			if file == "" {
				to = from
			}
			if strings.Contains(link[1], ":") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s: the link %s leads nowhere", from, link[1])
			} else if anchor != "" && !anchors(strings.Join(lines(t, to), "\n"))[anchor] {
				t.Errorf("%s: the link %s names a heading that is not there", from, link[1])
			}
		}
	}
}
