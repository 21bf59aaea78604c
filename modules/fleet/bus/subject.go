// SPDX-License-Identifier: Apache-2.0

package bus

import (
	"regexp"
	"strings"
	"sync"

	"weir/internal/fault"
)

// Subjects, each followed by the fleet's name and, for hosts, the host's token.
const (
	reports  = "weir.report."
	grants   = "weir.grant."
	requests = "weir.request."
)

// name returns the syntax of fleets and hosts; commands without a fleet do not compile it.
var name = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252}[A-Za-z0-9_])?$`)
})

// CheckName rejects names that cannot be part of a subject. kind is "fleet" or "host".
func CheckName(kind, text string) error {
	if kind == "fleet" && strings.Contains(text, ".") || !name().MatchString(text) {
		allowed := "letters, digits, _, - and ."
		if kind == "fleet" {
			allowed = "letters, digits, _ and -"
		}
		return fault.New(fault.Usage, "use "+allowed+", as in research", "%q is not a name of a %s", text, kind)
	}
	return nil
}

// token is a host's name as one token of a subject: the dot separates tokens.
func token(host string) string { return strings.ReplaceAll(host, ".", "%") }

// hostOf is the inverse of token for the last token of a subject.
func hostOf(subject string) string {
	return strings.ReplaceAll(subject[strings.LastIndexByte(subject, '.')+1:], "%", ".")
}
