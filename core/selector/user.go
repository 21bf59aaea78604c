// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"fmt"
	osuser "os/user"
	"strconv"

	"weir/core/match"
	"weir/core/policy"
)

// noID says what to write instead of a user's name. Names are not taken: the same policy would mean
// another user on another host.
func noID(text string) error {
	if named, err := osuser.Lookup(text); err == nil {
		return fmt.Errorf("%s is a name, and a user id is meant: write %s, which it is on this host", text, named.Uid)
	}
	return fmt.Errorf("%s is no user id: write a number, which 'id -u NAME' prints", text)
}

// userID is what a file says.
type userID uint32

// UnmarshalText reads a number, and tells which one a name is.
func (u *userID) UnmarshalText(text []byte) error {
	id, err := readID(string(text))
	*u = userID(id)
	return err
}

// readID reads the id of a user. A zero in front would be octal to YAML 1.1; the last id is none.
func readID(text string) (uint32, error) {
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil || id == 1<<32-1 || len(text) > 1 && text[0] == '0' {
		return 0, noID(text)
	}
	return uint32(id), nil
}

// user is the user that has opened a socket.
var user = Kind{
	SelectorKind: policy.SelectorKind{
		Key: "user", Doc: "User id whose sockets are meant.", Sample: userID(0), Schema: `{"type": "integer"}`,
		Parse: func(text string) (string, string, error) {
			if _, err := readID(text); err != nil {
				return "", "", err
			}
			return text, "user " + text, nil
		},
	},
	Bind: func(_ *Host, text string) (Binding, error) {
		id, err := readID(text)
		return Binding{Key: match.OfUser(id)}, err
	},
	Inside: func(_ *Host, text string) (Inside, string, error) {
		uid, err := readID(text)
		return Inside{User: &uid, By: "user"}, "", err
	},
}
