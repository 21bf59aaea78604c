// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"fmt"
	osuser "os/user"
	"strconv"

	"weir/internal/match"
	"weir/policy"
)

// noID says what to write instead of a user's name. Names are not taken: the same policy would mean
// another user on another host.
func noID(text string) error {
	if named, err := osuser.Lookup(text); err == nil {
		return fmt.Errorf("%s is a name, and a user id is meant: write %s, which it is on this host", text, named.Uid)
	}
	return fmt.Errorf("%s is no user id: write a number, which 'id -u NAME' prints", text)
}

// user is the user that has opened a socket.
var user = Kind{
	SelectorKind: policy.SelectorKind{
		Key: "user", Doc: "User id whose sockets are meant.", Sample: 0,
		Parse: func(text string) (string, string, error) {
			if id, err := strconv.ParseUint(text, 10, 32); err != nil || id > 1<<32-2 {
				return "", "", noID(text)
			}
			return text, "user " + text, nil
		},
	},
	Bind: func(_ *Host, text string) (Binding, error) {
		id, err := strconv.ParseUint(text, 10, 32)
		return Binding{Key: match.OfUser(uint32(id))}, err
	},
	Inside: func(_ *Host, text string) (Inside, string, error) {
		id, err := strconv.ParseUint(text, 10, 32)
		uid := uint32(id)
		return Inside{User: &uid, By: "user"}, "", err
	},
}
