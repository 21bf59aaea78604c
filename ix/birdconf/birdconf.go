// SPDX-License-Identifier: Apache-2.0

// Package birdconf writes BIRD's part of an exchange: the session with the path server, for BIRD 2
// and 3.
package birdconf

import (
	"fmt"
	"io"
	"net/netip"
	"strings"

	"weir/internal/fault"
	"weir/ix/config"
)

// Write writes the configuration to include in BIRD's. Paths with the next hop of a port carry two
// large communities: (AS, 1, number of the sponsor) and (AS, 2, number of the port), numbers from 1
// in file order. Other paths are not sent to Weir, which would ignore them.
func Write(w io.Writer, e *config.Exchange) error {
	if !e.Feed.Bird.IsValid() {
		return fault.New(fault.Usage, "write feed: {bird: ADDRESS, local: ADDRESS}", "the exchange file has no session with BIRD")
	}
	var out strings.Builder
	out.WriteString("# BIRD's part beside the path server, written by weir ix bird. Every BGP protocol of BIRD needs\n" +
		"# `strict bind yes`, or BIRD takes port 179 of Weir's address too.\n\n")
	writeExport(&out, e)
	writeFeed(&out, e)
	_, err := io.WriteString(w, out.String())
	return err
}

// writeExport writes the filter function of the feed.
func writeExport(out *strings.Builder, e *config.Exchange) {
	out.WriteString("function weir_export()\n{\n\tif source != RTS_BGP then return false;\n")
	number := 0
	for i, s := range e.Sponsors {
		for _, p := range s.Ports {
			number++
			for _, family := range []struct {
				network string
				is4     bool
			}{{"NET_IP4", true}, {"NET_IP6", false}} {
				set := hops(p.Addresses, family.is4)
				if set == "" {
					continue
				}
				fmt.Fprintf(out, "\tif net.type = %s && bgp_next_hop ~ [ %s ] then { # %s/%s\n", family.network, set, s.Name, p.Name)
				fmt.Fprintf(out, "\t\tbgp_large_community.add((%d, 1, %d)); bgp_large_community.add((%d, 2, %d));\n\t\treturn true;\n\t}\n", e.AS, i+1, e.AS, number)
			}
		}
	}
	out.WriteString("\treturn false;\n}\n\n")
}

// hops returns the addresses of a family as a set of BIRD.
func hops(all []netip.Addr, is4 bool) string {
	var words []string
	for _, a := range all {
		if a.Is4() == is4 {
			words = append(words, a.String())
		}
	}
	return strings.Join(words, ", ")
}

func writeFeed(out *strings.Builder, e *config.Exchange) {
	fmt.Fprintf(out, "protocol bgp weir_feed {\n\tdescription \"Weir, path server\";\n\tlocal %s as %d;\n\tneighbor %s as %d;\n\tstrict bind yes;\n\tgraceful restart on;\n", e.Feed.Bird, e.AS, e.Feed.Local, e.AS)
	if e.Feed.Password != "" {
		fmt.Fprintf(out, "\tpassword \"%s\";\n", e.Feed.Password) // BIRD's strings have no escapes
	}
	for _, channel := range []string{"ipv4", "ipv6"} {
		fmt.Fprintf(out, "\t%s { import none; export where weir_export(); add paths tx; next hop keep; };\n", channel)
	}
	out.WriteString("}\n")
}
