// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"

	"weir/internal/fault"
)

func TestJoin(t *testing.T) {
	text := strings.Replace(sample, "members:\n", "members: # in order of arrival\n", 1) + "# the end\n"
	joined, m, err := Join("ix.yaml", []byte(text), "new.yaml", []byte("school:\n  as: 64990\n  addresses: [10.99.2.77] # from the LAN\n  paths: 2\n"))
	if err != nil {
		t.Fatal(err)
	}
	if m.Name != "school" || m.AS != 64990 || m.Paths != 2 {
		t.Errorf("member %+v", m)
	}
	want := "  school:\n    as: 64990\n    addresses: [10.99.2.77] # from the LAN\n    paths: 2\n"
	if strings.Replace(string(joined), want, "", 1) != text {
		t.Errorf("joined:\n%s", joined)
	}
	e, err := Parse("ix.yaml", joined)
	if err != nil || e.Members[len(e.Members)-1].Name != "school" {
		t.Errorf("the joined file: %v", err)
	}
}

func TestFaultyNewMembers(t *testing.T) {
	for name, c := range map[string]struct{ text, member, want string }{
		"taken name":      {sample, "club: {as: 64990, addresses: [10.99.2.77]}", `member "club" already`},
		"taken address":   {sample, "school: {as: 64990, addresses: [10.99.2.1]}", "10.99.2.1 is a duplicate"},
		"unknown sponsor": {sample, "school: {as: 64990, addresses: [10.99.2.77], without: [purple]}", `no sponsor "purple"`},
		"unknown key":     {sample, "school: {as: 64990, adresses: [10.99.2.77]}", "new.yaml:1:"},
		"two":             {sample, "a: {as: 64990, addresses: [10.99.2.77]}\nb: {as: 64991, addresses: [10.99.2.78]}", "2 members instead of 1"},
		"none":            {sample, "", ""},
		"a faulty file":   {"version: 1\n", "school: {as: 64990, addresses: [10.99.2.77]}", `"members" is missing`},
		"flow":            {sample[:strings.Index(sample, "members:")] + "members: {club: {as: 64998, addresses: [10.99.2.2]}, freifunk: {as: 1, addresses: [10.99.2.1]}}\n", "school: {as: 64990, addresses: [10.99.2.77]}", "block form"},
	} {
		_, _, err := Join("ix.yaml", []byte(c.text), "new.yaml", []byte(c.member))
		if fault.Of(err) != fault.Usage || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzJoin(f *testing.F) {
	f.Add(sample, "school: {as: 64990, addresses: [10.99.2.77]}")
	f.Add(sample, "school:\n  as: 64990\n  addresses: [10.99.2.77]\n")
	f.Fuzz(func(t *testing.T, text, member string) {
		joined, m, err := Join("ix.yaml", []byte(text), "new.yaml", []byte(member))
		if err != nil {
			return
		}
		if e, err := Parse("ix.yaml", joined); err != nil || e.Members[len(e.Members)-1].Name != m.Name {
			t.Errorf("the joined file: %v", err)
		}
	})
}
