// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"fmt"
	"slices"

	"weir/internal/fault"
	"weir/internal/infile"
	"weir/internal/yamlfile"
)

var memberKind = infile.Kind{What: "member file", Most: 64 << 10, Name: "name a file with one entry of members, as in docs/guides/exchange.md", Larger: "leave comments out"}

// ReadMember reads the file of a new member for [Join].
func ReadMember(filename string) ([]byte, error) { return memberKind.Read(filename) }

// Join adds a member to the text of an exchange file and returns the new text and the member. The
// member's text is one entry of `members`, as in "club: {as: 64998, addresses: [10.99.2.2]}".
// Comments and the order of the file stay. The errors are those of [Parse] for the member's text
// and for the new file: an address that is in use or outside of the LAN, an unknown sponsor.
func Join(filename string, text []byte, memberName string, member []byte) (joined []byte, m *Member, err error) {
	name, err := onlyKey(memberName, member)
	if err != nil {
		return nil, nil, err
	}
	before, err := Parse(filename, text)
	if err != nil {
		return nil, nil, err
	}
	if slices.ContainsFunc(before.Members, func(m Member) bool { return m.Name == name }) {
		return nil, nil, fault.New(fault.Usage, "choose another name, or edit the entry", "%s: there is a member %q already", filename, name)
	}
	joined, ok := insert(text, member)
	if !ok {
		return nil, nil, fault.New(fault.Usage, "write `members:` in a line of its own, and each member below it", "%s: members is not in block form", filename)
	}
	after, err := Parse(filename, joined)
	if err != nil {
		return nil, nil, err
	}
	if m, err = after.Member(name); err != nil || len(after.Members) != len(before.Members)+1 {
		return nil, nil, fault.New(fault.Usage, "add the entry by hand", "%s: the entry of %q does not fit below members", filename, name)
	}
	return joined, m, nil
}

// onlyKey returns the name of the one member of a file.
func onlyKey(filename string, text []byte) (string, error) {
	tree, err := yamlfile.ParseWithin(yamlfile.Limits{Octets: 64 << 10, Values: 1000, Line: true}, filename, text)
	if err != nil {
		return "", err
	}
	var entries yamlfile.Map[*memberKeys]
	var p yamlfile.Problems
	tree.Decode(&entries, nil, &p)
	if err := p.Err("correct the file at the places named"); err != nil {
		return "", err
	}
	if len(entries) != 1 {
		return "", fault.New(fault.Usage, "write one, as in club: {as: 64998, addresses: [10.99.2.2]}", "%s: %d members instead of 1", filename, len(entries))
	}
	return entries[0].Key.Value, nil
}

// insert puts the lines of a member behind the last one of the block of members, with the
// indentation of the first. ok is false without such a block.
func insert(text, member []byte) (joined []byte, ok bool) {
	lines := bytes.SplitAfter(text, []byte("\n"))
	start := slices.IndexFunc(lines, func(line []byte) bool {
		rest, is := bytes.CutPrefix(line, []byte("members:"))
		rest = bytes.TrimSpace(rest)
		return is && (len(rest) == 0 || rest[0] == '#')
	})
	if start < 0 {
		return nil, false
	}
	indent, end := []byte(nil), start+1
	for i := start + 1; i < len(lines); i++ {
		content := bytes.TrimLeft(lines[i], " ")
		if trimmed := bytes.TrimSpace(content); len(trimmed) == 0 || trimmed[0] == '#' {
			continue
		}
		width := len(lines[i]) - len(content)
		if width == 0 {
			break
		}
		if indent == nil {
			indent = lines[i][:width]
		}
		end = i + 1
	}
	if indent == nil {
		return nil, false
	}
	var out bytes.Buffer
	for _, line := range lines[:end] {
		out.Write(line)
	}
	if !bytes.HasSuffix(out.Bytes(), []byte("\n")) {
		out.WriteByte('\n')
	}
	for line := range bytes.Lines(bytes.TrimRight(member, "\n ")) {
		if trimmed := bytes.TrimSpace(line); len(trimmed) == 0 || bytes.Equal(trimmed, []byte("---")) {
			continue
		}
		fmt.Fprintf(&out, "%s%s\n", indent, bytes.TrimRight(line, "\r\n"))
	}
	for _, line := range lines[end:] {
		out.Write(line)
	}
	return out.Bytes(), true
}
