package selector

import (
	"fmt"
	"strconv"

	"weir/internal/match"
	"weir/policy"
)

// user is the user that has opened a socket.
var user = Kind{
	SelectorKind: policy.SelectorKind{
		Key: "user", Doc: "User id whose sockets are meant.", Sample: 0,
		Parse: func(text string) (string, string, error) {
			if id, err := strconv.ParseUint(text, 10, 32); err != nil || id > 1<<32-2 {
				return "", "", fmt.Errorf("%s is no user id", text)
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
