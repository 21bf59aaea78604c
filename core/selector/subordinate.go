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
// NAME:FIRST:COUNT of subuid(5) with the user's name or id. Like newuidmap, it ignores malformed
// lines.
func (h *Host) subordinates(id string) (all []Object, err error) {
	text, err := os.ReadFile(cmp.Or(h.SubordinateIDs, "/etc/subuid"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read subordinate ids: %w", err)
	}
	name := id
	if named, err := osuser.LookupId(id); err == nil {
		name = named.Username
	}
	for line := range strings.Lines(string(text)) {
		owner, ids, _ := strings.Cut(strings.TrimSpace(line), ":")
		if owner != name && owner != id {
			continue
		}
		if first, count, is := readRange(ids); is {
			for _, key := range match.OfUsers(first, count) {
				all = append(all, Object{Key: key})
			}
		}
	}
	if n := len(all); n >= match.BlocksPerUser {
		return nil, fmt.Errorf("the subordinate ids of user %s are %d aligned blocks, more than %d: give the user fewer ranges in /etc/subuid, beginning at multiples of 65536", id, n, match.BlocksPerUser-1)
	}
	return all, nil
}

// readRange parses FIRST:COUNT.
func readRange(text string) (first, count uint32, is bool) {
	from, number, _ := strings.Cut(text, ":")
	f, err := strconv.ParseUint(from, 10, 32)
	n, more := strconv.ParseUint(number, 10, 32)
	return uint32(f), uint32(n), err == nil && more == nil && n > 0
}
