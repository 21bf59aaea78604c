// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	osuser "os/user"
	"strconv"
	"strings"

	"weir/core/match"
)

// subordinates returns the subordinate ids of a user, which newuidmap(1) allows the user: the lines
// NAME:FIRST:COUNT of subuid(5) with the user's name or id, as FIRST:COUNT,... Like newuidmap, it
// ignores malformed lines.
func (h *Host) subordinates(id string) (string, error) {
	text, err := os.ReadFile(cmp.Or(h.SubordinateIDs, "/etc/subuid"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read subordinate ids: %w", err)
	}
	name := id
	if named, err := osuser.LookupId(id); err == nil {
		name = named.Username
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		owner, ids, _ := strings.Cut(strings.TrimSpace(line), ":")
		if owner != name && owner != id {
			continue
		}
		if _, _, is := readRange(ids); is {
			all = append(all, ids)
		}
	}
	ranges := strings.Join(all, ",")
	if n := len(subordinateKeys(ranges)) + 1; n > match.BlocksPerUser {
		return "", fmt.Errorf("the subordinate ids of user %s are %d aligned blocks, more than %d: give the user fewer ranges in /etc/subuid, beginning at multiples of 65536", id, n-1, match.BlocksPerUser-1)
	}
	return ranges, nil
}

// readRange parses FIRST:COUNT.
func readRange(text string) (first, count uint32, is bool) {
	from, number, _ := strings.Cut(text, ":")
	f, err := strconv.ParseUint(from, 10, 32)
	n, more := strconv.ParseUint(number, 10, 32)
	return uint32(f), uint32(n), err == nil && more == nil && n > 0
}

// subordinateKeys returns the keys of ranges.
func subordinateKeys(ranges string) (all []match.Key) {
	for text := range strings.SplitSeq(ranges, ",") {
		if first, count, is := readRange(text); is {
			all = append(all, match.OfUsers(first, count)...)
		}
	}
	return all
}
