// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"weir/internal/nearest"
	"weir/internal/units"
	"weir/internal/yamlfile"
	"weir/ix/choose"
)

// Bounds of values.
const (
	maxPaths     = 65_535 // PATHS-LIMIT has 16 bits
	maxTolerance = 255
	maxAddresses = 256 // of a port
	minStale     = time.Second
	maxStale     = 24 * time.Hour
	minRate      = units.BitRate(1e6)
	maxPassword  = 80 // bytes of a TCP MD5 key in Linux
	maxRate      = units.BitRate(1e15)
)

// reader converts the file as written to an Exchange and collects mistakes.
type reader struct {
	file
	yamlfile.Problems
	lans      []netip.Prefix
	addresses map[netip.Addr]string // their owner, "sponsor orange, port ber1"
}

// exchange converts the file. It continues behind mistakes to report all of them.
func (r *reader) exchange() *Exchange {
	if r.Version != 1 && r.Has("version") && !r.file.Flawed("version") {
		r.Add(r.At("version"), "", "version %d is unknown: this Weir reads version 1", r.Version)
	}
	e := &Exchange{Name: r.Exchange.Name}
	e.AS = r.as(r.Exchange.Fields, "exchange", r.Exchange.AS)
	if id := r.Exchange.RouterID; id != nil {
		e.RouterID = r.routerID(*id)
	}
	for _, lan := range r.Exchange.LAN {
		p, err := netip.ParsePrefix(lan.Value)
		if err != nil || p != p.Masked() {
			r.Add(lan.Place, "write it as 10.99.0.0/16", "exchange.lan: %q is not a prefix without host bits", lan.Value)
			continue
		}
		r.lans = append(r.lans, p)
	}
	e.LANs = r.lans
	e.Feed = r.feed()
	for _, text := range r.Listen {
		if a, ok := r.address(text, "listen", ""); ok {
			e.Listen = append(e.Listen, a)
			r.owner(text, "listen", a, "listen")
		}
	}
	e.Choose = r.choose()
	e.Sponsors = r.sponsors()
	e.Members = r.members(e.Choose.Paths)
	return e
}

func (r *reader) feed() (f Feed) {
	k := r.Feed
	switch {
	case k == nil:
		return f
	case k.RIB != "" && (k.Bird != nil || k.Local != nil):
		r.Add(k.At("rib"), "keep the session or the file", "feed: rib is beside bird and local")
	case k.RIB == "" && (k.Bird == nil || k.Local == nil) && !k.Flawed():
		r.Add(k.Self, "write bird and local, or rib: FILE", "feed: a session requires bird and local")
	}
	f.RIB = k.RIB
	f.Password = r.password("feed", k.Password)
	if strings.ContainsFunc(f.Password, func(c rune) bool { return c == '"' || unicode.IsControl(c) }) {
		r.Add(k.Password.Place, "choose other characters", "feed.password: a string of BIRD has no quotation marks and control characters")
	}
	if k.Bird != nil {
		if a, ok := r.address(*k.Bird, "feed.bird", ""); ok {
			f.Bird = a
			r.owner(*k.Bird, "feed.bird", a, "feed.bird")
		}
	}
	if k.Local != nil {
		if a, ok := r.address(*k.Local, "feed.local", ""); ok {
			f.Local = a // may be an address of listen too
			if a == f.Bird {
				r.Add(k.Local.Place, "name Weir's own address", "feed.local: %s is the address of BIRD", a)
			}
		}
	}
	return f
}

func (r *reader) choose() Choose {
	c := Choose{Paths: 4, Tolerance: 1, Diverse: true, Prefer: choose.Spread, Stale: 10 * time.Minute}
	k := r.Choose
	if k.Paths != nil {
		c.Paths = r.paths(k.Fields, "choose", *k.Paths)
	}
	if k.Tolerance != nil {
		c.Tolerance = *k.Tolerance
		if !k.Flawed("tolerance") && (c.Tolerance < 0 || c.Tolerance > maxTolerance) {
			r.Add(k.At("tolerance"), "", "choose.tolerance: %d is outside 0 to %d AS hops", c.Tolerance, maxTolerance)
		}
	}
	if k.Diverse != nil {
		c.Diverse = *k.Diverse
	}
	if k.Prefer != "" {
		c.Prefer = choose.Prefer(k.Prefer)
	}
	if k.Stale != nil {
		c.Stale = time.Duration(*k.Stale)
		if !k.Flawed("stale") && (c.Stale < minStale || c.Stale > maxStale) {
			r.Add(k.At("stale"), "", "choose.stale: %s is outside %s to %s", c.Stale, minStale, maxStale)
		}
	}
	return c
}

// paths checks a number of paths.
func (r *reader) paths(f yamlfile.Fields, path string, n int) int {
	if !f.Flawed("paths") && (n < 1 || n > maxPaths) {
		r.Add(f.At("paths"), "", "%s.paths: %d is outside 1 to %d", path, n, maxPaths)
	}
	return n
}

// as checks an AS number: RFC 7607, RFC 6793 and RFC 7300 reserve some.
func (r *reader) as(f yamlfile.Fields, path string, n *uint32) uint32 {
	if n == nil {
		return 0
	}
	if !f.Flawed("as") {
		switch *n {
		case 0, 23456, 65535, 4294967295:
			r.Add(f.At("as"), "", "%s.as: AS %d is reserved", path, *n)
		}
	}
	return *n
}

func (r *reader) routerID(text yamlfile.Text) netip.Addr {
	a, err := netip.ParseAddr(text.Value)
	if err != nil || !a.Is4() || a.IsUnspecified() {
		r.Add(text.Place, "write it as 10.99.0.2", "exchange.router_id: %q is not an IPv4 address other than 0.0.0.0", text.Value)
	}
	return a
}

// address reads the address of a host. A lan of "" skips the check against the exchange's LAN.
func (r *reader) address(text yamlfile.Text, path, lan string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text.Value)
	switch {
	case err != nil:
		r.Add(text.Place, "write it as 10.99.1.1 or 2001:db8::1", "%s: %q is not an IP address", path, text.Value)
	case a.Zone() != "" || a.IsLinkLocalUnicast():
		r.Add(text.Place, "write the global address", "%s: %s is link-local", path, a)
	case a.Is4In6():
		r.Add(text.Place, fmt.Sprintf("write %s", a.Unmap()), "%s: %s is an IPv4 address in IPv6 notation", path, a)
	case a.IsUnspecified() || a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		r.Add(text.Place, "write the address of a host", "%s: %s is not the address of a host", path, a)
	case lan != "" && len(r.lans) > 0 && !slices.ContainsFunc(r.lans, func(p netip.Prefix) bool { return p.Contains(a) }):
		r.Add(text.Place, "correct the address, or add its prefix to exchange.lan", "%s: %s is foreign: it is outside of the exchange's LAN", path, a)
	default:
		return a, true
	}
	return a, false
}

// owner notes the owner of an address; a second owner is a mistake.
func (r *reader) owner(text yamlfile.Text, path string, a netip.Addr, owner string) {
	if first, twice := r.addresses[a]; twice {
		r.Add(text.Place, "give each its own address", "%s: %s is a duplicate: %s has it already", path, a, first)
		return
	}
	r.addresses[a] = owner
}

// hosts reads the addresses of a port or member.
func (r *reader) hosts(f yamlfile.Fields, texts []yamlfile.Text, path, owner string) (all []netip.Addr) {
	if len(texts) == 0 && f.Has("addresses") && !f.Flawed("addresses") {
		r.Add(f.At("addresses"), "write one address at least", "%s.addresses: the list is empty", path)
	}
	for _, text := range texts {
		if a, ok := r.address(text, path+".addresses", "lan"); ok {
			all = append(all, a)
			r.owner(text, path+".addresses", a, owner)
		}
	}
	return all
}

// password checks a TCP MD5 key (RFC 2385).
func (r *reader) password(path string, text *yamlfile.Text) string {
	if text == nil {
		return ""
	}
	if n := len(text.Value); n == 0 || n > maxPassword {
		r.Add(text.Place, "", "%s.password: %d bytes are outside 1 to %d", path, n, maxPassword)
	}
	return text.Value
}

var plainName = regexp.MustCompile(`^[\p{L}\p{N}][\p{L}\p{N}._-]{0,62}$`)

// name checks a name chosen by the user: it is an argument of commands, as in SPONSOR/PORT.
func (r *reader) name(path string, name yamlfile.Text) {
	if !plainName.MatchString(name.Value) {
		r.Add(name.Place, "choose a name such as ber1", "%s: the name %q has characters other than letters, digits, '.', '_' and '-', or more than 63", path, name.Value)
	}
}

// known checks names against a list. An empty list is a mistake of its own.
func (r *reader) known(path, what string, texts []yamlfile.Text, names []string) (all []string) {
	for i, text := range texts {
		switch {
		case len(names) > 0 && !slices.Contains(names, text.Value):
			hint := ""
			if r.Len() < 20 { // bounds the comparisons
				hint = nearest.Hint(text.Value, names)
			}
			r.Add(text.Place, "", "%s: there is no %s %q%s", path, what, text.Value, hint)
		case slices.ContainsFunc(texts[:i], func(t yamlfile.Text) bool { return t.Value == text.Value }):
			r.Add(text.Place, "", "%s: %q is given twice", path, text.Value)
		}
		all = append(all, text.Value)
	}
	return all
}

// names lists the keys of a mapping.
func names[T any](m yamlfile.Map[T]) (all []string) {
	for _, e := range m {
		all = append(all, e.Key.Value)
	}
	return all
}
