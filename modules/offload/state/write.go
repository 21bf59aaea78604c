// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Header is the first line of a state file.
const Header = "weir-offload-state/1"

// Write writes the state file, one object per line. Equal states have equal files.
// docs/formats/offload.md describes the format.
func (s *State) Write(to io.Writer) error {
	w := bufio.NewWriterSize(to, 1<<16)
	fmt.Fprintf(w, "%s\nhost forward6 %t rp_filter %d multipath_hash %d\n", Header, s.Host.Forward6, s.Host.RPFilter, s.Host.MultiHash)
	for _, i := range slices.Sorted(maps.Keys(s.Links)) {
		writeLink(w, s.Links[i])
	}
	addresses := slices.SortedFunc(maps.Keys(s.Addresses), func(a, b Address) int {
		return cmp.Or(cmp.Compare(a.Link, b.Link), a.At.Addr().Compare(b.At.Addr()), cmp.Compare(a.At.Bits(), b.At.Bits()))
	})
	for _, a := range addresses {
		fmt.Fprintf(w, "address %d %s\n", a.Link, a.At)
	}
	neighbors := slices.SortedFunc(maps.Keys(s.Neighbors), func(a, b Where) int {
		return cmp.Or(cmp.Compare(a.Link, b.Link), a.At.Compare(b.At))
	})
	for _, at := range neighbors {
		n := s.Neighbors[at]
		fmt.Fprintf(w, "neighbor %d %s mac %s valid %t stale %t\n", at.Link, at.At, n.MAC, n.Valid, n.Stale)
	}
	for _, r := range s.Rules {
		writeRule(w, r)
	}
	for _, f := range s.Filters {
		writeFilter(w, f)
	}
	for g := 1; g < len(s.groups); g++ {
		writeGroup(w, g, s.groups[g])
	}
	for _, number := range slices.Sorted(maps.Keys(s.Tables)) {
		writeTable(w, number, s.Tables[number])
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return nil
}

// quote makes a name one word.
func quote(name string) string { return strings.ReplaceAll(strconv.Quote(name), " ", `\x20`) }

func writeLink(w *bufio.Writer, l Link) {
	fmt.Fprintf(w, "link %d name %s mac %s mtu %d mtu6 %d up %t lower %t ethernet %t loopback %t forward4 %t rp_filter %d",
		l.Index, quote(l.Name), l.MAC, l.MTU, l.MTU6, l.Up, l.Lower, l.Ethernet, l.Loopback, l.Forward4, l.RPFilter)
	if l.Kind != "" {
		fmt.Fprintf(w, " kind %s", quote(l.Kind))
	}
	if l.Master != 0 {
		fmt.Fprintf(w, " master %d", l.Master)
	}
	if l.Parent != 0 {
		fmt.Fprintf(w, " parent %d", l.Parent)
	}
	if l.Elsewhere {
		fmt.Fprint(w, " elsewhere true")
	}
	if l.Protocol != 0 {
		fmt.Fprintf(w, " vlan %d protocol %d", l.VLAN, l.Protocol)
	}
	fmt.Fprintln(w)
}

func writeRule(w *bufio.Writer, r Rule) {
	fmt.Fprintf(w, "rule %d ipv6 %t action %d table %d suppress %d", r.Priority, r.IPv6, r.Action, r.Table, r.Suppress)
	if r.From.IsValid() {
		fmt.Fprintf(w, " from %s", r.From)
	}
	if r.To.IsValid() {
		fmt.Fprintf(w, " to %s", r.To)
	}
	for _, word := range [][2]string{{"in", r.In}, {"out", r.Out}, {"other", r.Other}} {
		if word[1] != "" {
			fmt.Fprintf(w, " %s %s", word[0], quote(word[1]))
		}
	}
	if r.Inverted {
		fmt.Fprint(w, " inverted true")
	}
	fmt.Fprintln(w)
}

func writeFilter(w *bufio.Writer, f Filter) {
	fmt.Fprintf(w, "filter ipv4 %t ipv6 %t name %s", f.IPv4, f.IPv6, quote(f.Name))
	if f.Link != 0 {
		fmt.Fprintf(w, " link %d egress %t", f.Link, f.Egress)
	}
	if f.To.IsValid() {
		fmt.Fprintf(w, " to %s", f.To)
	}
	fmt.Fprintln(w)
}

func writeGroup(w *bufio.Writer, g int, hops []Hop) {
	fmt.Fprintf(w, "group %d", g)
	for _, h := range hops {
		fmt.Fprintf(w, " hop %d", h.Link)
		if h.Via.IsValid() {
			fmt.Fprintf(w, " via %s", h.Via)
		}
		if h.Weight != 1 {
			fmt.Fprintf(w, " weight %d", h.Weight)
		}
		if h.Dead {
			fmt.Fprint(w, " dead true")
		}
		if h.Encap {
			fmt.Fprint(w, " encap true")
		}
	}
	fmt.Fprintln(w)
}

// Compare orders prefixes by family, address and length.
func Compare(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

func writeTable(w *bufio.Writer, number uint32, t Table) {
	fmt.Fprintf(w, "table %d\n", number)
	line := make([]byte, 0, 128)
	for _, to := range slices.SortedFunc(maps.Keys(t), Compare) {
		e := t[to]
		for i := range 1 + len(e.More) {
			r := e.Best
			if i > 0 {
				r = e.More[i-1]
			}
			line = append(to.AppendTo(append(line[:0], "route "...)), " group "...)
			line = strconv.AppendInt(line, int64(r.Group), 10)
			line = appendUnless(line, " type ", int(r.Type), int(Unicast))
			line = appendUnless(line, " metric ", int(r.Metric), 0)
			line = appendUnless(line, " tos ", int(r.TOS), 0)
			line = appendUnless(line, " mtu ", r.MTU, 0)
			if r.From.IsValid() {
				line = r.From.AppendTo(append(line, " from "...))
			}
			if r.Several {
				line = append(line, " several true"...)
			}
			_, _ = w.Write(append(line, '\n')) // Flush returns the error
		}
	}
}

func appendUnless(line []byte, word string, value, usual int) []byte {
	if value == usual {
		return line
	}
	return strconv.AppendInt(append(line, word...), int64(value), 10)
}
