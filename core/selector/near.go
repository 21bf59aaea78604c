// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"strings"

	"weir/internal/nearest"
)

// nearName is nearest.Of for names in which numbers are significant: tenant-1 and tenant-2 are
// different objects.
func nearName(word string, names []string) string {
	near := nearest.Of(word, names)
	plain := func(s string) string {
		return strings.Map(func(r rune) rune {
			if '0' <= r && r <= '9' {
				return -1
			}
			return r
		}, s)
	}
	if near == "" || plain(near) == plain(word) {
		return ""
	}
	return near
}
