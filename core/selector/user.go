// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"fmt"
	osuser "os/user"
	"strconv"

	"weir/core/match"
	"weir/core/policy"
)

// noID returns the advice for a user name. Names are rejected because the same policy would match
// another user on another host.
func noID(text string) error {
	if named, err := osuser.Lookup(text); err == nil {
		return fmt.Errorf("%s is a user name: write its id, %s on this host", text, named.Uid)
	}
	return fmt.Errorf("%s is not a user id: write a number, which 'id -u NAME' prints", text)
}

// userID is the value in a file.
type userID uint32

// UnmarshalText parses a number, and suggests the id for a name.
func (u *userID) UnmarshalText(text []byte) error {
	id, err := readID(string(text))
	*u = userID(id)
	return err
}

// readID parses a user id. YAML 1.1 reads a leading zero as octal; the last id means none.
func readID(text string) (uint32, error) {
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil || id == 1<<32-1 || len(text) > 1 && text[0] == '0' {
		return 0, noID(text)
	}
	return uint32(id), nil
}

// user matches sockets by the user that opened them.
var user = Kind{
	SelectorKind: policy.SelectorKind{
		Key: "user", Doc: "Sockets of a user, by numeric user ID. Includes the subordinate IDs of the user (subuid(5)).", Sample: userID(0), Schema: `{"type": "integer"}`,
		Parse: func(text string) (string, string, error) {
			if _, err := readID(text); err != nil {
				return "", "", err
			}
			return text, "user " + text, nil
		},
	},
	Bind: func(h *Host, text string) (Binding, error) {
		id, err := readID(text)
		if err != nil {
			return Binding{}, err
		}
		subordinates, err := h.subordinates(text)
		b := Binding{Key: match.OfUser(id)}
		b.setMore(subordinates)
		return b, err
	},
	Inside: func(_ *Host, text string) (Inside, string, error) {
		uid, err := readID(text)
		return Inside{User: &uid, By: "user"}, "", err
	},
}
