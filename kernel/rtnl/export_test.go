// SPDX-License-Identifier: Apache-2.0

package rtnl

// Changes reports whether a watch without known devices reports messages.
func Changes(messages []byte) bool { return (&Watch{seen: map[int]string{}}).changes(messages) }
