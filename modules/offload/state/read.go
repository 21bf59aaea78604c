// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"

	"weir/internal/fault"
)

// Bounds of a file, which may be hostile.
const (
	maxRoutes = 16 << 20
	maxLine   = 1 << 20
	maxGroups = 1 << 20
)

// Read reads a state file. Its errors are faults of status Usage that name the line.
func Read(from io.Reader, name string) (*State, error) {
	p := &parser{State: New(), groups: map[int]Group{0: 0}}
	scanner := bufio.NewScanner(from)
	scanner.Buffer(make([]byte, 0, 1<<12), maxLine)
	const try = "make the file with weir offload dump; docs/formats/offload.md describes it"
	line := 0
	for scanner.Scan() {
		line++
		if line == 1 {
			if scanner.Text() != Header {
				return nil, fault.New(fault.Usage, try, "%s:1: the first line is not %q", name, Header)
			}
			continue
		}
		if err := p.line(scanner.Text()); err != nil {
			return nil, fault.New(fault.Usage, try, "%s:%d: %v", name, line, err)
		}
	}
	if errors.Is(scanner.Err(), bufio.ErrTooLong) {
		return nil, fault.New(fault.Usage, try, "%s:%d: the line has more than %d octets", name, line+1, maxLine)
	}
	if err := scanner.Err(); err != nil {
		return nil, fault.New(fault.Usage, try, "%s: %v", name, err)
	}
	if p.State.Links == nil || !p.begun {
		return nil, fault.New(fault.Usage, try, "%s: the file is empty", name)
	}
	p.SortRules()
	return p.State, nil
}

// parser holds the state read so far.
type parser struct {
	*State
	groups map[int]Group // by number in the file
	table  uint32
	routes int
	begun  bool
	words  []string
	err    error
}

// line reads one object.
func (p *parser) line(text string) error {
	p.words, p.err, p.begun = strings.Fields(text), nil, true
	if len(p.words) == 0 || strings.HasPrefix(p.words[0], "#") {
		return nil
	}
	kind := p.words[0]
	p.words = p.words[1:]
	switch kind {
	case "host":
		p.host()
	case "link":
		p.link()
	case "address":
		a := Address{Link: p.int()}
		a.At = p.prefix()
		p.Addresses[a] = true
	case "neighbor":
		p.neighbor()
	case "rule":
		p.rule()
	case "filter":
		p.filter()
	case "group":
		p.group()
	case "table":
		p.table = uint32(p.int())
	case "route":
		p.route()
	default:
		return fmt.Errorf("%q is not a kind of object", kind)
	}
	if p.err == nil && len(p.words) > 0 {
		p.err = fmt.Errorf("%s: unexpected word %q", kind, p.words[0])
	}
	return p.err
}

// next returns the next word.
func (p *parser) next() (word string) {
	if len(p.words) == 0 {
		p.fail("the line ends too early")
		return ""
	}
	word, p.words = p.words[0], p.words[1:]
	return word
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
	p.words = nil
}

func (p *parser) int() int {
	word := p.next()
	n, err := strconv.ParseUint(word, 10, 32)
	if err != nil {
		p.fail("%q is not a number from 0 to 4294967295", word)
	}
	return int(n)
}

func (p *parser) bool() bool {
	switch word := p.next(); word {
	case "true":
		return true
	case "false":
	default:
		p.fail("%q is neither true nor false", word)
	}
	return false
}

func (p *parser) name() string {
	word := p.next()
	name, err := strconv.Unquote(word)
	if err != nil {
		p.fail("%q is not a name in quotes", word)
	}
	return name
}

func (p *parser) addr() netip.Addr {
	a, err := netip.ParseAddr(p.next())
	if err != nil {
		p.fail("%v", err)
	}
	return a
}

func (p *parser) prefix() netip.Prefix {
	a, err := netip.ParsePrefix(p.next())
	if err != nil {
		p.fail("%v", err)
	}
	return a
}

func (p *parser) mac() (m MAC) {
	word := p.next()
	if _, err := fmt.Sscanf(word, "%02x:%02x:%02x:%02x:%02x:%02x", &m[0], &m[1], &m[2], &m[3], &m[4], &m[5]); err != nil {
		p.fail("%q is not a link-layer address", word)
	}
	return m
}

// each calls f for every remaining word, up to an unknown one.
func (p *parser) each(f map[string]func()) {
	for len(p.words) > 0 {
		word := p.next()
		read, known := f[word]
		if !known {
			p.fail("unknown word %q", word)
			return
		}
		read()
	}
}

func (p *parser) host() {
	h := &p.Host
	p.each(map[string]func(){
		"forward6": func() { h.Forward6 = p.bool() }, "rp_filter": func() { h.RPFilter = p.int() }, "multipath_hash": func() { h.MultiHash = p.int() },
	})
}

func (p *parser) link() {
	l := Link{Index: p.int()}
	p.each(map[string]func(){
		"name": func() { l.Name = p.name() }, "kind": func() { l.Kind = p.name() }, "mac": func() { l.MAC = p.mac() },
		"mtu": func() { l.MTU = p.int() }, "mtu6": func() { l.MTU6 = p.int() }, "up": func() { l.Up = p.bool() }, "lower": func() { l.Lower = p.bool() },
		"master": func() { l.Master = p.int() }, "parent": func() { l.Parent = p.int() }, "vlan": func() { l.VLAN = p.int() },
		"protocol": func() { l.Protocol = p.int() }, "elsewhere": func() { l.Elsewhere = p.bool() }, "ethernet": func() { l.Ethernet = p.bool() },
		"loopback": func() { l.Loopback = p.bool() }, "forward4": func() { l.Forward4 = p.bool() }, "rp_filter": func() { l.RPFilter = p.int() },
	})
	p.Links[l.Index] = l
}

func (p *parser) neighbor() {
	at := Where{Link: p.int()}
	at.At = p.addr()
	var n Neighbor
	p.each(map[string]func(){"mac": func() { n.MAC = p.mac() }, "valid": func() { n.Valid = p.bool() }, "stale": func() { n.Stale = p.bool() }})
	p.Neighbors[at] = n
}

func (p *parser) rule() {
	r := Rule{Priority: uint32(p.int()), Suppress: -1}
	p.each(map[string]func(){
		"ipv6": func() { r.IPv6 = p.bool() }, "action": func() { r.Action = uint8(p.int()) }, "table": func() { r.Table = uint32(p.int()) },
		"suppress": func() {
			if word := p.next(); word != "-1" {
				p.words = append([]string{word}, p.words...)
				r.Suppress = p.int()
			}
		},
		"from": func() { r.From = p.prefix() }, "to": func() { r.To = p.prefix() }, "in": func() { r.In = p.name() }, "out": func() { r.Out = p.name() },
		"other": func() { r.Other = p.name() }, "inverted": func() { r.Inverted = p.bool() },
	})
	p.Rules = append(p.Rules, r)
}

func (p *parser) filter() {
	var f Filter
	p.each(map[string]func(){
		"ipv4": func() { f.IPv4 = p.bool() }, "ipv6": func() { f.IPv6 = p.bool() }, "name": func() { f.Name = p.name() },
		"link": func() { f.Link = p.int() }, "egress": func() { f.Egress = p.bool() }, "to": func() { f.To = p.prefix().Masked() },
	})
	p.Filters = append(p.Filters, f)
}

func (p *parser) group() {
	number := p.int()
	var hops []Hop
	last := func() *Hop {
		if len(hops) == 0 {
			p.fail("a group begins with a hop")
			return &Hop{}
		}
		return &hops[len(hops)-1]
	}
	p.each(map[string]func(){
		"hop":    func() { hops = append(hops, Hop{Link: p.int(), Weight: 1}) },
		"via":    func() { last().Via = p.addr() },
		"weight": func() { last().Weight = p.int() },
		"dead":   func() { last().Dead = p.bool() },
		"encap":  func() { last().Encap = p.bool() },
	})
	if len(p.groups) > maxGroups {
		p.fail("more than %d groups", maxGroups)
		return
	}
	p.groups[number] = p.GroupOf(hops)
}

func (p *parser) route() {
	to, r := p.prefix(), Route{Type: Unicast}
	for len(p.words) > 0 && p.err == nil {
		switch word := p.next(); word {
		case "group":
			number := p.int()
			group, known := p.groups[number]
			if !known {
				p.fail("no line before defines group %d", number)
			}
			r.Group = group
		case "type":
			r.Type = uint8(p.int())
		case "metric":
			r.Metric = uint32(p.int())
		case "tos":
			r.TOS = uint8(p.int())
		case "mtu":
			r.MTU = p.int()
		case "from":
			r.From = p.prefix().Masked()
		case "several":
			r.Several = p.bool()
		default:
			p.fail("unknown word %q of a route", word)
		}
	}
	if p.routes++; p.routes > maxRoutes {
		p.fail("more than %d routes", maxRoutes)
	}
	if p.err == nil {
		p.Put(p.table, to.Masked(), r)
	}
}
