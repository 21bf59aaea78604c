// SPDX-License-Identifier: Apache-2.0

package tester

import (
	"errors"
	"regexp"
	"strings"

	"weir/internal/fault"
	"weir/internal/yamlfile"
)

// flagOf maps keys to flags with another name, or to a flag of a stream for a key of a port.
var flagOf = map[string]string{"family": "--ipv6", "device": "--from and --to", "namespace": "--from and --to"}

// asKey is how a message names the key of a specification that a mistake is of.
var asKey = regexp.MustCompile(`^(streams\[0\]|ports\.(from|to))?\.?([a-z_]+)?: `)

// ofFlags converts mistakes of a specification made from flags: the user has seen no file.
func ofFlags(err error, text string) error {
	mistakes := yamlfile.Mistakes(err)
	if len(mistakes) == 0 {
		return err
	}
	lines := strings.Split(text, "\n")
	var all []string
	try := "--help describes the flags; docs/formats/tester.md describes their values"
	for _, m := range mistakes {
		message := strings.Replace(asKey.ReplaceAllString(m.Message, ""), `the speed of port "from"`, "--speed", 1)
		if flag := flagAt(lines, m.Place.Line); flag != "" {
			message = flag + ": " + message
		}
		all = append(all, message)
	}
	if own := fault.Advice(err); own != "" && !strings.Contains(own, "docs/formats") {
		try = strings.Replace(own, "add speed to the port, such as speed: 10Gbit", "add --speed, such as --speed 10Gbit", 1)
	}
	return fault.Wrap(errors.New(strings.Join(all, "\n")), fault.Of(err), try)
}

// flagAt returns the flag behind a line of the specification; "" for a default.
func flagAt(lines []string, line int) string {
	if line < 1 || line > len(lines) {
		return ""
	}
	key, _, is := strings.Cut(strings.TrimSpace(lines[line-1]), ":")
	if !is || strings.HasPrefix(key, "-") {
		return ""
	}
	if flag, known := flagOf[key]; known {
		return flag
	}
	return "--" + strings.ReplaceAll(key, "_", "-")
}
