// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"weir/internal/fault"
	"weir/internal/yamlfile"
	"weir/ix/choose"
)

const sample = `version: 1
exchange: {name: Community-IX Berlin, as: 65500, router_id: 10.99.0.2}
feed:     {bird: 10.99.0.1, local: 10.99.0.2}
listen:   [10.99.0.2, "2001:db8:99::2"]
choose:   {paths: 4, tolerance: 1, diverse: true, prefer: spread, stale: 10m}
sponsors:
  orange: {as: 8492, ports: {ber1: {addresses: [10.99.1.1], rate: 10Gbit, place: BER}}}
  green:  {as: 293,  ports: {fra1: {addresses: [10.99.1.2], rate: 100Gbit, place: FRA}}, only: [freifunk]}
members:
  freifunk: {as: 64999, addresses: [10.99.2.1], place: BER, paths: 8}
  club:     {as: 64998, addresses: [10.99.2.2], without: [green], small: true}
`

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

func TestParse(t *testing.T) {
	want := &Exchange{
		Name: "Community-IX Berlin", AS: 65500, RouterID: ip("10.99.0.2"), Feed: Feed{Bird: ip("10.99.0.1"), Local: ip("10.99.0.2")},
		Listen: []netip.Addr{ip("10.99.0.2"), ip("2001:db8:99::2")},
		Choose: Choose{Paths: 4, Tolerance: 1, Diverse: true, Prefer: choose.Spread, Stale: 10 * time.Minute},
		Sponsors: []Sponsor{
			{Name: "orange", AS: 8492, Ports: []Port{{Name: "ber1", Addresses: []netip.Addr{ip("10.99.1.1")}, Rate: 10e9, Place: "BER"}}},
			{Name: "green", AS: 293, Ports: []Port{{Name: "fra1", Addresses: []netip.Addr{ip("10.99.1.2")}, Rate: 100e9, Place: "FRA"}}, Only: []string{"freifunk"}},
		},
		Members: []Member{
			{Name: "freifunk", AS: 64999, Addresses: []netip.Addr{ip("10.99.2.1")}, Place: "BER", Paths: 8},
			{Name: "club", AS: 64998, Addresses: []netip.Addr{ip("10.99.2.2")}, Paths: 4, Without: []string{"green"}, Small: true},
		},
	}
	got, err := Parse("ix.yaml", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	options := cmp.Options{cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmpopts.EquateEmpty()}
	if diff := cmp.Diff(want, got, options); diff != "" {
		t.Error(diff)
	}
	// The values under choose are the defaults.
	without := strings.Replace(sample, "choose:   {paths: 4, tolerance: 1, diverse: true, prefer: spread, stale: 10m}\n", "", 1)
	got, err = Parse("ix.yaml", []byte(without))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, options); diff != "" {
		t.Error(diff)
	}
}

func TestMistakesNameThePlace(t *testing.T) {
	for _, test := range []struct{ name, old, new, want string }{
		{"version", "version: 1", "version: 2", "ix.yaml:1:10: version 2 is unknown"},
		{"unknown key", "small: true", "smal: true", `did you mean "small"?`},
		{"unknown sponsor", "without: [green]", "without: [gren]", `ix.yaml:11:59: members.club.without: there is no sponsor "gren" (did you mean "green"?)`},
		{"sponsor twice", "without: [green]", "without: [green, green]", `"green" is given twice`},
		{"unknown member", "only: [freifunk]", "only: [freifnk]", `sponsors.green.only: there is no member "freifnk" (did you mean "freifunk"?)`},
		{"nobody", "only: [freifunk]", "only: []", "sponsors.green.only: the list is empty"},
		{"duplicate address", "[10.99.2.2]", "[10.99.1.1]", "ix.yaml:11:37: members.club.addresses: 10.99.1.1 is a duplicate: port orange/ber1 has it already"},
		{"address of BIRD", "[10.99.2.2]", "[10.99.0.1]", "feed.bird has it already"},
		{"Weir's address", "[10.99.2.2]", "[10.99.0.2]", "listen has it already"},
		{"foreign address", "router_id: 10.99.0.2}", "router_id: 10.99.0.2, lan: [10.99.0.0/23, 2001:db8:99::/64]}", "members.club.addresses: 10.99.2.2 is foreign: it is outside of the exchange's LAN"},
		{"LAN", "router_id: 10.99.0.2}", "router_id: 10.99.0.2, lan: [10.99.0.1/16]}", "not a prefix without host bits"},
		{"no address", "[10.99.2.2]", "[10.99.2.300]", `"10.99.2.300" is not an IP address`},
		{"empty addresses", "[10.99.2.2]", "[]", "members.club.addresses: the list is empty"},
		{"multicast", "[10.99.2.2]", "[224.0.0.1]", "224.0.0.1 is not the address of a host"},
		{"link-local", "[10.99.2.2]", "[fe80::1]", "fe80::1 is link-local"},
		{"mapped", "[10.99.2.2]", `["::ffff:10.99.2.2"]`, "is an IPv4 address in IPv6 notation"},
		{"no paths", "paths: 8", "paths: 0", "ix.yaml:10:68: members.freifunk.paths: 0 is outside 1 to 65535"},
		{"too many paths", "paths: 8", "paths: 65536", "members.freifunk.paths: 65536 is outside 1 to 65535"},
		{"no paths by default", "paths: 4", "paths: 0", "choose.paths: 0 is outside 1 to 65535"},
		{"rate", "rate: 10Gbit", "rate: 10Gbyte", "sponsors.orange.ports.ber1.rate"},
		{"rate 0", "rate: 10Gbit", "rate: 0", "sponsors.orange.ports.ber1.rate: 0 bit/s is outside 1 Mbit/s to 1000 Tbit/s"},
		{"no rate", "rate: 10Gbit, ", "", `key "rate" is missing in sponsors.orange.ports.ber1`},
		{"no ports", "{ber1: {addresses: [10.99.1.1], rate: 10Gbit, place: BER}}", "{}", "sponsors.orange.ports: there is none"},
		{"prefer", "prefer: spread", "prefer: longest", `"longest" is not one of spread, shortest`},
		{"tolerance", "tolerance: 1", "tolerance: -1", "choose.tolerance: -1 is outside 0 to 255 AS hops"},
		{"stale", "stale: 10m", "stale: 100h", "choose.stale: 100h0m0s is outside 1s to 24h0m0s"},
		{"no stale time", "stale: 10m", "stale: 0s", "choose.stale: 0s is outside 1s to 24h0m0s"},
		{"reserved AS", "as: 8492", "as: 23456", "sponsors.orange.as: AS 23456 is reserved"},
		{"router ID", "router_id: 10.99.0.2", `router_id: "::1"`, "exchange.router_id"},
		{"feed", "local: 10.99.0.2", "rib: a.mrt", "feed: rib is beside bird and local"},
		{"half a feed", ", local: 10.99.0.2", "", "feed: a session requires bird and local"},
		{"password of BIRD", "local: 10.99.0.2", `local: 10.99.0.2, password: 'a"b'`, "feed.password: a string of BIRD has no quotation marks"},
		{"BIRD itself", "local: 10.99.0.2", "local: 10.99.0.1", "feed.local: 10.99.0.1 is the address of BIRD"},
		{"name", "club: ", "club/1: ", `members: the name "club/1" has characters other than`},
		{"empty member", "{as: 64998, addresses: [10.99.2.2], without: [green], small: true}", "", "members.club"},
		{"key twice", "club: ", "freifunk: ", `key "freifunk" is given twice`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if strings.Count(sample, test.old) != 1 {
				t.Fatalf("%q is in the sample %d times", test.old, strings.Count(sample, test.old))
			}
			_, err := Parse("ix.yaml", []byte(strings.Replace(sample, test.old, test.new, 1)))
			if err == nil || !strings.Contains(err.Error(), test.want) || fault.Of(err) != fault.Usage {
				t.Errorf("%v\nwant %s", err, test.want)
			}
		})
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	text := strings.NewReplacer("paths: 8", "paths: 0", "without: [green]", "without: [red]", "rate: 10Gbit", "rate: 1bit", "10.99.2.2", "10.99.2.1").Replace(sample)
	_, err := Parse("ix.yaml", []byte(text))
	if n := len(yamlfile.Mistakes(err)); n != 4 {
		t.Errorf("%d mistakes, want 4: %v", n, err)
	}
}

// One mistake is reported once: a missing key has no wrong value, and names of sponsors are not
// checked against a list that the file lacks.
func TestAMissingKeyIsOneMistake(t *testing.T) {
	for old, new := range map[string]string{"version: 1\n": "", "sponsors:\n": "sponsers:\n", "members:\n": "membres:\n"} {
		_, err := Parse("ix.yaml", []byte(strings.Replace(sample, old, new, 1)))
		if n := len(yamlfile.Mistakes(err)); n != 1 {
			t.Errorf("%q instead of %q: %d mistakes, want 1: %v", new, old, n, err)
		}
	}
}

func TestSmallestFile(t *testing.T) {
	text := "version: 1\nexchange: {as: 65500}\nsponsors: {a: {as: 1, ports: {p: {addresses: [192.0.2.1], rate: 1Gbit}}}}\nmembers: {m: {as: 2, addresses: [192.0.2.2]}}\n"
	if _, err := Parse("ix.yaml", []byte(text)); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"", "version: 1\n", "[]", "version: 1\nexchange: {}\nsponsors: {}\nmembers: {}\n", "version: 1\nexchange: {as: 1}\nsponsors: {a: }\nmembers: {b: }\n"} {
		if _, err := Parse("ix.yaml", []byte(text)); fault.Of(err) != fault.Usage {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(sample)
	f.Add("version: 1\nexchange: {as: 1}\nsponsors: {a: {ports: {b: }}}\nmembers: {c: }\n")
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse("ix.yaml", []byte(text))
		if err != nil {
			if fault.Of(err) != fault.Usage {
				t.Errorf("status %d: %v", fault.Of(err), err)
			}
			return
		}
		for _, m := range e.Members {
			if m.Paths < 1 || m.Paths > maxPaths || len(m.Addresses) == 0 {
				t.Errorf("accepted: %+v", m)
			}
		}
		for _, s := range e.Sponsors {
			for _, p := range s.Ports {
				if p.Rate < minRate || len(p.Addresses) == 0 {
					t.Errorf("accepted: %+v", p)
				}
			}
		}
	})
}
