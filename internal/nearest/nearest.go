// SPDX-License-Identifier: Apache-2.0

// Package nearest finds the candidate that a mistyped word probably means.
//
// It compares by edits (insert, delete, replace, swap two neighbours: the optimal string alignment
// distance), without regard to case. A word that is too far from every candidate gets no
// suggestion: a wrong one misleads more than none.
package nearest

import (
	"fmt"
	"strings"
)

// maxLength is the length in bytes above which words are not compared.
const maxLength = 64

// Of returns the candidate nearest to word, or "" if none is near. Of equal distances the first
// candidate wins.
func Of(word string, candidates []string) string {
	if len(word) > maxLength {
		return ""
	}
	best, bestDistance := "", len(word)/2+1
	if len(word) <= 2 {
		bestDistance = 2
	}
	lower := strings.ToLower(word)
	for _, c := range candidates {
		if len(c) > maxLength {
			continue
		}
		d := distance(lower, strings.ToLower(c))
		if d < bestDistance && d < max(len(c), 2) {
			best, bestDistance = c, d
		}
	}
	return best
}

// Hint returns ` (did you mean "x"?)` for the nearest candidate, or "" if none is near.
func Hint(word string, candidates []string) string {
	if near := Of(word, candidates); near != "" {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return ""
}

// distance is the optimal string alignment distance of two words, in bytes.
func distance(a, b string) int {
	before, previous, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(previous[j]+1, row[j-1]+1, previous[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, previous, row = previous, row, before
	}
	return previous[len(b)]
}
