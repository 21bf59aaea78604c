// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"bytes"
	"encoding/json"
)

// scan calls visit for each string value of a valid JSON text, with the key of the innermost
// member. The value is text[start:end] with its quotes.
func scan(text []byte, visit func(key string, start, end int)) {
	key := ""
	for i := 0; i < len(text); i++ {
		if text[i] != '"' {
			continue
		}
		end := i + 1
		for end < len(text) && text[end] != '"' {
			if text[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(text) {
			return
		}
		value := text[i : end+1]
		if rest := bytes.TrimLeft(text[end+1:min(len(text), end+8)], " \t\r\n"); len(rest) > 0 && rest[0] == ':' {
			key = unquote(value)
		} else {
			visit(key, i, end+1)
		}
		i = end
	}
}

// unquote returns the text of a JSON string.
func unquote(value []byte) string {
	if len(value) < 2 {
		return ""
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1])
	}
	var s string
	_ = json.Unmarshal(value, &s)
	return s
}
