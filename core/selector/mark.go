// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"fmt"
	"strconv"

	"weir/core/match"
	"weir/core/policy"
)

// mark matches sockets by SO_MARK.
var mark = Kind{
	SelectorKind: policy.SelectorKind{
		Key: "mark", Doc: "Sockets with a mark (SO_MARK), such as 16 or 0x10.", Sample: "",
		Parse: func(text string) (string, string, error) {
			number, err := strconv.ParseUint(text, 0, 32)
			if err != nil || number == 0 || len(text) > 1 && text[0] == '0' && '0' <= text[1] && text[1] <= '9' {
				return "", "", fmt.Errorf("%q is not a mark: write a number above 0, as in 16 or 0x10", text)
			}
			canonical := fmt.Sprintf("%#x", number)
			return canonical, "socket mark " + canonical, nil
		},
	},
	Bind: func(_ *Host, text string) (Binding, error) {
		number, err := strconv.ParseUint(text, 0, 32)
		return Binding{Key: match.OfMark(uint32(number))}, err
	},
	Inside: func(_ *Host, text string) (Inside, string, error) {
		number, err := strconv.ParseUint(text, 0, 32)
		return Inside{Mark: uint32(number), By: "the socket's mark"}, "", err
	},
}
